#!/usr/bin/env python3
"""Failures by a full disk and by limits of the kernel.

    DLAUNCH_BIN_DIR=build/bin limits_cases_test.py [Class.test ...]
"""

import os
import subprocess
import sys

sys.dont_write_bytecode = True
from staging import PLACE, RANK, TRAINER, Above, Failures, case  # noqa: E402

from common import main  # noqa: E402
from control_group import ControlGroup  # noqa: E402

TOO_MUCH = "yes 0123456789 | head -c 400000"


class Limits(Failures):
    def on_a_small_disk(self):
        """What to put before a command so that its folder `small` is a file system of 100 KiB."""
        inside = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=100k none small && exec "$@"', "sh"]
        os.mkdir(os.path.join(self.dir, "small"))
        if subprocess.run([*inside, "true"], cwd=self.dir, capture_output=True, check=False).returncode != 0:
            self.skipTest("no file system can be mounted here")
        return inside

    @case(9, "the disk of the log files is full", code=0,
          cause=Above(r"cannot write \S+/stdout\.log: No space left on device"), rank=Above(r"/0/stdout\.log"), host=r"on host {host}",
          remedy=Above(r"free space there, or choose another --log-dir"))
    def test_09_log_files(self):
        return self.run_to_the_end("--redirects=3", "--log-dir=small", "sh", "-c", TOO_MUCH, prefix=self.on_a_small_disk())

    @case(9, "the disk of the checkpoint is full",
          cause=r"trainer: cannot write {dir}/small/checkpoint: No space left on device", rank=RANK, host=PLACE,
          remedy=r"free space on host {host} in the file system of {dir}/small \(100 KiB\)$")
    def test_09_checkpoint(self):
        return self.train("checkpoint", 1, f"{self.dir}/small/checkpoint", prefix=self.on_a_small_disk())

    @case(24, "too few open files",
          cause=r"\d+ open files are needed, but only 20 are allowed", rank=None, host=None, remedy=Above(r"raise the hard limit \(ulimit -Hn"))
    def test_24_open_files(self):
        return self.run_to_the_end("--nproc-per-node=8", "true", prefix=["sh", "-c", 'ulimit -n 20; exec "$@"', "sh"])

    @case(24, "pids.max is too small for the workers",
          cause=r"could not be started: .*\(pids\.max is 6 in cgroup \S*/{group}\)", rank=r"rank \d \(local rank \d, node 0, ", host=r"host {host}",
          remedy=Above(r"raise the limit on processes"))
    def test_24_pids(self):
        group = ControlGroup(self, pids=6)
        return self.run_to_the_end("--nproc-per-node=8", "sleep", "1000", prefix=group.inside(), facts={"group": group.name})

    @case(24, "pids.max is too small for their threads",
          cause=r"a limit on processes and threads was reached .*\(pids\.max is 8 in cgroup \S*/{group}\)", rank=r"rank \d \(local rank \d, node 0, ",
          host=r"host {host}, pid \d+\)", remedy=r"raise the limit on processes on host {host} \(pids\.max is 8 in cgroup \S*/{group}\)")
    def test_24_threads(self):
        group = ControlGroup(self, pids=8)
        return self.run_to_the_end("--nproc-per-node=4", TRAINER, "none", "0", prefix=group.inside(), facts={"group": group.name})

    @case(24, "ulimit -f ends a worker", code=153,
          cause=r"signal 25 \(SIGXFSZ", rank=RANK, host=PLACE, remedy=r"^raise ulimit -f on host {host}: it is \d+(\.\d)? KiB")
    def test_24_file_size(self):
        return self.run_to_the_end("sh", "-c", "echo $$ > pid.0; exec yes > file", prefix=["sh", "-c", 'ulimit -f 10; exec "$@"', "sh"], rank=0)

    @case(24, "ulimit -f is met by dlaunch's log files", code=3,
          cause=r"could not be written, in 1 file on host {host}: File too large", rank=Above(r"rank 0 is in \S+/stdout\.log"), host=r"on host {host}",
          remedy=Above(r"raise the limit on the size of files \(ulimit -f\)"))
    def test_24_size_of_logs(self):
        return self.run_to_the_end("--tee=3", "--log-dir=logs", "sh", "-c", f"{TOO_MUCH}; echo $$ > pid.0; exit 3",
                                   prefix=["sh", "-c", 'ulimit -f 10; exec "$@"', "sh"], rank=0)


if __name__ == "__main__":
    main()

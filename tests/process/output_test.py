#!/usr/bin/env python3
"""Where the workers' output goes: log files, the console, prefixes, full disks.

    DLAUNCH_BIN_DIR=build/bin output_test.py [Class.test ...]

Every wait is for an event and has a deadline.
"""

import os
import pty
import re
import resource
import stat
import subprocess
import time

from common import DLAUNCH, PATIENCE, free_port, main, summary
from output_case import SPEAK, Output


class Files(Output):
    def test_redirected_streams_go_to_files_only(self):
        done = self.run_job("--nproc-per-node=2", f"--log-dir={self.logs}", "-r", "3", "sh", "-c", SPEAK)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, rf"^dlaunch: log files are in {self.logs}/standalone-\w+\n$")
        for rank in range(2):
            self.assertEqual(self.log(rank), f"out {rank}\n")
            self.assertEqual(self.log(rank, "stderr.log"), f"err {rank}\n")

    def test_a_map_names_single_ranks(self):
        done = self.run_job("--nproc-per-node=12", f"--log-dir={self.logs}", "-r", "0:1,11:3", "sh", "-c", SPEAK)
        self.assertEqual(sorted(done.stdout.splitlines()), sorted(f"out {rank}" for rank in range(1, 11)))
        self.assertEqual(self.log(0), "out 0\n")
        self.assertEqual(self.log(11, "stderr.log"), "err 11\n")
        self.assertEqual(sorted(os.listdir(os.path.join(self.logs, "latest", "attempt_0"))), ["0", "11"])
        self.assertIn("err 0\n", done.stderr)

    def test_teed_lines_have_torchruns_prefix_and_files_have_none(self):
        done = self.run_job("--nproc-per-node=2", f"--log-dir={self.logs}", "--tee=1", "--role=trainer", "sh", "-c", SPEAK)
        self.assertEqual(sorted(done.stdout.splitlines()), ["[trainer0]:out 0", "[trainer1]:out 1"])
        self.assertEqual(self.log(1), "out 1\n")
        self.assertIn("err 1\n", done.stderr)
        self.assertNotIn("]:err", done.stderr)

    def test_tee_adds_to_a_redirect(self):
        """As torchrun: what both name goes to the file and to the console."""
        for both in (("-t", "1", "-r", "0:1,1:2"), ("-t", "3", "-r", "1:3"), ("-t", "1:3,0:1", "-r", "3")):
            done = self.run_job("--nproc-per-node=2", f"--log-dir={self.logs}", *both, "sh", "-c", SPEAK)
            self.assertEqual(sorted(done.stdout.splitlines()), ["[default0]:out 0", "[default1]:out 1"], both)
            self.assertEqual((self.log(0), self.log(1)), ("out 0\n", "out 1\n"), both)
            self.assertEqual("[default1]:err 1" in done.stderr, both[1] != "1", both)

    def test_each_attempt_has_its_own(self):
        done = self.run_job("--max-restarts=1", f"--log-dir={self.logs}", "-r3", "sh", "-c",
                            "echo try $TORCHELASTIC_RESTART_COUNT; exit $((1 - TORCHELASTIC_RESTART_COUNT))")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.log(0, attempt=0), self.log(0, attempt=1)), ("try 0\n", "try 1\n"))

    def test_dev_null_means_no_files(self):
        done = self.run_job("--nproc-per-node=2", "--log-dir=/dev/null", "-r1", "sh", "-c", SPEAK)
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertEqual(sorted(done.stderr.splitlines()), ["err 0", "err 1"])
        self.assertEqual(os.listdir(self.dir), [])

    def test_no_files_are_made_by_default(self):
        self.run_job("--nproc-per-node=2", "sh", "-c", SPEAK)
        self.assertEqual(os.listdir(self.dir), [])

    def test_lines_that_match_are_copied(self):
        self.run_job(f"--log-dir={self.logs}", "--duplicate-stdout-filters=loss,a,,b", "sh", "-c",
                     "echo loss 1; echo x; echo 'has a,b in it'; echo a; printf 'loss at the end'")
        self.assertEqual(self.log(0, "filtered_stdout.log"), "loss 1\nhas a,b in it\nloss at the end\n")

    def test_large_files_are_turned_over(self):
        self.run_job(f"--log-dir={self.logs}", "-r1", "--log-max-size=1K", "--log-keep=2", "sh", "-c",
                     "i=0; while [ $i -lt 1000 ]; do echo line $i; i=$((i+1)); done")
        names = sorted(os.listdir(os.path.join(self.logs, "latest", "attempt_0", "0")))
        self.assertEqual(names, ["stderr.log", "stdout.log", "stdout.log.1", "stdout.log.2"][1:])
        together = self.log(0, "stdout.log.2") + self.log(0, "stdout.log.1") + self.log(0)
        last = together.splitlines()
        self.assertEqual(last, [f"line {i}" for i in range(1000 - len(last), 1000)])

    def test_a_full_disk_stops_nothing(self):
        mounted = subprocess.run(["unshare", "--mount", "sh", "-c",
                                  'mkdir "$1" && mount -t tmpfs -o size=64k none "$1" && shift && exec "$@"', "sh", self.logs,
                                  DLAUNCH, f"--log-dir={self.logs}", "--tee=1", "sh", "-c", "yes 0123456789 | head -n 20000"],
                                 capture_output=True, text=True, timeout=PATIENCE, check=False)
        if "mount" in mounted.stderr or "unshare" in mounted.stderr:
            self.skipTest(f"no small file system can be made here: {mounted.stderr.strip()}")
        self.assertEqual(mounted.returncode, 0, mounted.stderr)
        self.assertEqual(mounted.stdout.count("0123456789\n"), 20000)
        self.assertEqual(len(re.findall("No space left on device; the job continues", mounted.stderr)), 1, mounted.stderr)

    def test_a_limit_of_a_files_size_stops_nothing(self):
        """ulimit -f: of dlaunch's own log file; a worker that reaches it with one of its own is killed, as without dlaunch."""
        limited = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, resource.RLIM_INFINITY))
        done = subprocess.run([DLAUNCH, f"--log-dir={self.logs}", "--tee=1", "sh", "-c", "yes 0123456789 | head -n 20000"], preexec_fn=limited,
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("0123456789\n"), 20000)
        self.assertEqual(len(re.findall("File too large; the job continues, but this log has a gap", done.stderr)), 1, done.stderr)
        kept = self.log(0)
        missing = 20000 * 11 - len(kept)
        lines = 20000 - kept.count("\n")
        self.assertRegex(summary(done.stderr), rf"^dlaunch: the log files in {self.logs}/standalone-\w+ have gaps: {lines} lines \({missing} bytes\) "
                                                       r"could not be written, in 1 file on host \S+: File too large; raise the limit on the size of files \(ulimit -f\)$")
        done = subprocess.run([DLAUNCH, "sh", "-c", f"head -c 200000 /dev/zero > {self.dir}/large; kill -l $?"], preexec_fn=limited,
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.stdout, "XFSZ\n", done.stderr)

    def test_only_their_user_can_read_what_is_in_the_temporary_directory(self):
        self.run_job("-r3", "sh", "-c", SPEAK, preexec_fn=lambda: os.umask(0o022))
        (job_dir,) = os.listdir(self.dir)
        self.assertEqual(stat.S_IMODE(os.stat(os.path.join(self.dir, job_dir)).st_mode), 0o700)
        log = os.path.join(self.dir, job_dir, "attempt_0", "0", "stdout.log")
        self.assertEqual(stat.S_IMODE(os.stat(log).st_mode), 0o600)

    def test_a_named_directory_follows_the_umask(self):
        for mask in (0o022, 0o027, 0o077):
            self.run_job(f"--log-dir={self.logs}", "-r3", "sh", "-c", SPEAK, preexec_fn=lambda mask=mask: os.umask(mask))
            latest = os.path.join(self.logs, "latest")
            self.assertEqual(stat.S_IMODE(os.stat(latest).st_mode), 0o777 & ~mask)
            log = os.path.join(latest, "attempt_0", "0", "stdout.log")
            self.assertEqual(stat.S_IMODE(os.stat(log).st_mode), 0o644 & ~mask)

    def test_a_directory_that_cannot_be_made_is_a_mistake(self):
        with open(self.logs, "w", encoding="utf-8"):
            done = self.run_job(f"--log-dir={self.logs}", "-r3", "true")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, rf"^dlaunch: cannot make a log directory in {self.logs}: .*; choose another --log-dir\n$")


class ConsoleLines(Output):
    def test_only_the_requested_ranks(self):
        done = self.run_job("--nproc-per-node=4", "--local-ranks-filter=1,3", "sh", "-c", SPEAK)
        self.assertEqual(sorted(done.stdout.splitlines()), ["out 1", "out 3"])
        self.assertEqual(sorted(done.stderr.splitlines()), ["err 1", "err 3"])

    def test_a_prefix_by_template(self):
        done = self.run_job("--nproc-per-node=2", "--log-line-prefix-template=<${rank}/${local_rank} of ${role_name}> ", "sh", "-c",
                            "printf 'a\\nb'")
        self.assertEqual(sorted(done.stdout.splitlines()),
                         ["<0/0 of default> a", "<0/0 of default> b", "<1/1 of default> a", "<1/1 of default> b"])
        done = self.run_job("echo", "x", TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE="${rank}:")
        self.assertEqual(done.stdout, "0:x\n")

    def test_only_the_requested_ranks_of_all_nodes(self):
        both = ["--nnodes=2", "--master-addr=127.0.0.1", f"--master-port={free_port()}", "--nproc-per-node=2", "--global-ranks-filter=1,2",
                "echo", "${local_rank}"]
        first = subprocess.Popen([DLAUNCH, "--node-rank=0", *both], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.addCleanup(first.communicate)
        self.addCleanup(first.kill)
        second = self.run_job("--node-rank=1", *both)
        self.assertEqual((first.stdout.read(), second.stdout), ("1\n", "0\n"))

    def test_a_prefix_with_the_time(self):
        done = self.run_job("--log-line-prefix-template=${time} ", "sh", "-c", "echo a; echo b", TZ="UTC")
        self.assertRegex(done.stdout, r"^\d\d:\d\d:\d\d a\n\d\d:\d\d:\d\d b\n$")

    def on_a_terminal(self, *arguments, **variables):
        controller, terminal = pty.openpty()
        job = subprocess.Popen([DLAUNCH, *arguments], stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal,
                               env={**os.environ, **variables})
        os.close(terminal)
        seen = b""
        deadline = time.monotonic() + PATIENCE
        while True:
            self.assertLess(time.monotonic(), deadline, seen)
            try:
                piece = os.read(controller, 65536)
            except OSError:  # the other side has closed
                break
            if not piece:
                break
            seen += piece
        os.close(controller)
        self.assertEqual(job.wait(PATIENCE), 0)
        return seen

    def test_a_terminal_shows_the_ranks_in_colours(self):
        environment = {"NO_COLOR": "1"}
        seen = self.on_a_terminal("--nproc-per-node=2", "echo", "hi", **environment)
        self.assertEqual(sorted(seen.split(b"\r\n")), [b"", b"[rank 0]: hi", b"[rank 1]: hi"])
        saved = os.environ.pop("NO_COLOR", None)
        try:
            seen = self.on_a_terminal("--nproc-per-node=2", "echo", "hi")
        finally:
            if saved is not None:
                os.environ["NO_COLOR"] = saved
        self.assertEqual(sorted(seen.split(b"\r\n")), [b"", b"\x1b[33m[rank 1]: \x1b[0mhi", b"\x1b[36m[rank 0]: \x1b[0mhi"])

    def test_one_worker_on_a_terminal_is_left_as_it_is(self):
        self.assertEqual(self.on_a_terminal("printf", "10%%\\r20%%"), b"10%\r20%")


if __name__ == "__main__":
    main()

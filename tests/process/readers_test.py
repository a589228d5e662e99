#!/usr/bin/env python3
"""Readers of dlaunch's output that are slow, stop or go away.

    DLAUNCH_BIN_DIR=build/bin readers_test.py [Class.test ...]

Every wait is for an event and has a deadline.
"""

import array
import fcntl
import json
import os
import pathlib
import re
import signal
import subprocess
import termios
import unittest

from common import DLAUNCH, PATIENCE, main, most_memory_of, state_of, summary, wait_until
from output_case import SPEAK, Output


class SlowReaders(Output):
    def test_nothing_is_lost_and_little_is_held(self):
        """A reader that pauses: the workers wait, dlaunch stays small, then everything comes."""
        quiet = subprocess.Popen([DLAUNCH, "--nproc-per-node=4", "true"], stdin=subprocess.DEVNULL)
        without_output = most_memory_of(quiet)
        self.assertEqual(quiet.returncode, 0)
        job = subprocess.Popen([DLAUNCH, "--nproc-per-node=4", "sh", "-c", "head -c 30000000 /dev/zero | tr '\\0' $RANK | fold -w 99"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.addCleanup(job.communicate)
        self.addCleanup(job.kill)
        self.assertTrue(job.stdout.read(1))
        peak = 0
        total = 1
        while True:
            piece = job.stdout.read1(4096)
            if not piece:
                break
            total += len(piece)
            if total % 1000 < 10:
                with open(f"/proc/{job.pid}/status", encoding="utf-8") as status:
                    peak = max([peak, *(int(line.split()[1]) for line in status if line.startswith("VmHWM"))])
        self.assertEqual(job.wait(PATIENCE), 0)
        lines = 30000000 // 99
        self.assertEqual(total, 4 * (30000000 + lines + 1))
        self.assertLess(peak - without_output, 64 * 1024, "KiB more than without output: less than the 116 MiB that were written")

    def test_output_to_files_does_not_wait_for_the_console(self):
        job = subprocess.Popen([DLAUNCH, "--nproc-per-node=2", f"--log-dir={self.logs}", "-r", "1:1", "sh", "-c",
                                "[ $RANK = 0 ] && exec yes; yes | head -n 3000000; echo done > done.1"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.dir)
        self.addCleanup(job.communicate)
        self.addCleanup(job.send_signal, signal.SIGKILL)
        # Rank 0's output is not read. When rank 1 has written its last line, up to a pipe of it is still on the way to the file.
        wait_until(lambda: os.path.exists(os.path.join(self.dir, "done.1")), "rank 1 has written all")
        wait_until(lambda: len(self.log(1)) >= 6000000, "the file of rank 1 is complete")
        self.assertTrue(self.log(1) == "y\n" * 3000000, "the file of rank 1 has other bytes")


class ReadersThatStop(Output):
    """Pipes that the test holds open and does not read."""

    # More than a pipe holds, less than what makes workers wait.
    LINES = 6000
    SPEAK = f"i=0; while [ $i -lt {LINES} ]; do echo line $i of a reader who does not read; i=$((i+1)); done"

    def start(self, *arguments, **streams):
        job = subprocess.Popen([DLAUNCH, f"--report={self.dir}/report.json", *arguments], cwd=self.dir, stdin=subprocess.DEVNULL,
                               env={**os.environ, "TMPDIR": self.dir}, **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams})
        self.addCleanup(job.communicate)
        self.addCleanup(job.kill)
        return job

    def report(self):
        with open(f"{self.dir}/report.json", encoding="utf-8") as file:
            return json.load(file)

    @staticmethod
    def taken(pipe):
        """The output in the pipe when dlaunch ended: (lines, bytes). A partial line does not count."""
        text = pipe.read()
        return text.count(b"\n"), len(text)

    def check_all_is_counted(self, pipe, dropped, lines=LINES):
        all_bytes = sum(len(f"line {i} of a reader who does not read\n") for i in range(lines))
        whole_lines, size = self.taken(pipe)
        self.assertEqual((whole_lines + dropped["lines"], size + dropped["bytes"]), (lines, all_bytes))

    def test_the_job_ends_and_the_last_line_counts_what_was_dropped(self):
        job = self.start("--output-timeout=0.2", f"--log-dir={self.logs}", "--tee=1", "sh", "-c", self.SPEAK)
        self.assertEqual(job.wait(PATIENCE), 0)
        dropped = self.report()["dropped"]
        self.assertEqual(list(dropped), ["stdout"])
        last = summary(job.stderr.read().decode())
        self.assertRegex(last, rf"^dlaunch: dropped {dropped['stdout']['lines']} lines \({dropped['stdout']['bytes']} bytes\) of standard output: its reader "
                         rf"took nothing for 200 ms \(--output-timeout\); the log files in {self.logs}/standalone-\w+ are complete$")
        self.assertEqual(self.log(0).count("\n"), self.LINES)
        prefix = len("[default0]:") * self.LINES
        whole_lines, size = self.taken(job.stdout)
        self.assertEqual(whole_lines + dropped["stdout"]["lines"], self.LINES)
        self.assertEqual(size + dropped["stdout"]["bytes"], len(self.log(0)) + prefix)

    def test_late_reader_gets_complete_output(self):
        job = self.start("--output-timeout=1000", "sh", "-c", self.SPEAK + "; echo > spoken")
        wait_until(lambda: os.path.exists(f"{self.dir}/spoken"), "the worker has written all")
        self.assertEqual(self.taken(job.stdout)[0], self.LINES)
        self.assertEqual(job.wait(PATIENCE), 0)
        self.assertNotIn("dropped", self.report())

    def test_of_both_streams_in_one_pipe(self):
        job = self.start("--output-timeout=0.2", "sh", "-c", self.SPEAK + "; exit 7", stderr=subprocess.STDOUT)
        self.assertEqual(job.wait(PATIENCE), 7)
        report = self.report()
        self.assertEqual(report["exit_code"], 7)
        self.assertGreater(report["dropped"]["stdout"]["lines"], 0)
        # A page of the pipe may have had room for a short text, which what came to stdout had not.
        seen = job.stdout.read().decode()
        self.assertTrue("stderr" in report["dropped"] or "dlaunch: failed: " in seen, seen[-2000:])
        # A line that was cut may be followed by one of dlaunch's; one that lacks only its end looks whole, and counts as dropped.
        whole = len(re.findall(r"(?m)^line \d+ of a reader who does not read$", seen))
        self.assertIn(whole + report["dropped"]["stdout"]["lines"] - self.LINES, range(2))

    def test_of_stderr_alone(self):
        job = self.start("--output-timeout=0.2", "sh", "-c", f"echo said; ({self.SPEAK}) >&2; exit 7")
        self.assertEqual(job.wait(PATIENCE), 7)
        self.assertEqual(job.stdout.read(), b"said\n")
        dropped = self.report()["dropped"]
        self.assertEqual(list(dropped), ["stderr"])
        self.assertGreater(dropped["stderr"]["bytes"], 0)

    def test_sigterm_stops_workers_that_wait_for_the_reader(self):
        job = self.start("--nproc-per-node=2", "--output-timeout=0.2", "sh", "-c", "echo $$ > pid.$RANK; exec yes")
        pids = [f"{self.dir}/pid.{rank}" for rank in range(2)]
        wait_until(lambda: all(os.path.exists(pid) and os.path.getsize(pid) for pid in pids), "both workers have begun")
        in_pipe = array.array("i", [0])

        def is_stuck():
            """The pipe to the reader has no room for another page, and the workers sleep: their own pipes are full."""
            fcntl.ioctl(job.stdout, termios.FIONREAD, in_pipe)
            return in_pipe[0] > 15 * 4096 and all(state_of(int(pathlib.Path(pid).read_text())) == "S" for pid in pids)

        wait_until(is_stuck, "the workers wait for the reader")
        job.send_signal(signal.SIGTERM)
        self.assertEqual(job.wait(PATIENCE), 143)
        self.assertGreater(self.report()["dropped"]["stdout"]["lines"], 0)
        self.assertIn(b"dlaunch: stopped: ", job.stderr.read())

    def test_one_more_signal_ends_the_wait_at_once(self):
        for signo in (signal.SIGINT, signal.SIGTERM):
            job = self.start("--output-timeout=1000", "sh", "-c", self.SPEAK + "; echo > spoken; exec sleep 1000")
            wait_until(lambda: os.path.exists(f"{self.dir}/spoken"), "the worker has written all")
            os.remove(f"{self.dir}/spoken")
            job.send_signal(signo)
            for line in job.stderr:
                if line.startswith(b"dlaunch: stopped: "):  # only the reader is waited for now
                    break
            job.send_signal(signo)
            self.assertEqual(job.wait(PATIENCE), 128 + signo)
            self.assertRegex(job.stderr.read(), rb"dlaunch: dropped \d+ lines \(\d+ bytes\) of standard output: a signal ended dlaunch at once\n$")
            self.check_all_is_counted(job.stdout, self.report()["dropped"]["stdout"])

    def test_a_second_interrupt_ends_the_wait(self):
        job = self.start("--output-timeout=1000", "--stop-timeout=1000", "sh", "-c", "trap '' INT; " + self.SPEAK + "; echo > spoken; while :; do sleep 1000; done")
        wait_until(lambda: os.path.exists(f"{self.dir}/spoken"), "the worker has written all")
        job.send_signal(signal.SIGINT)
        self.assertIn(b"passing SIGINT on", job.stderr.readline())
        job.send_signal(signal.SIGINT)
        self.assertEqual(job.wait(PATIENCE), 130)
        self.assertIn(b"dlaunch: stopped: ", job.stderr.read())


@unittest.skipIf(os.geteuid() != 0, "needs two users")
class ReadersOfAnotherUserThatStop(ReadersThatStop):
    """The pipes are root's and the job is nobody's, as in a container: dlaunch cannot reopen them, and a write may block."""

    def start(self, *arguments, **streams):
        os.chmod(self.dir, 0o777)
        nobody = {"user": 65534, "group": 65534, "extra_groups": []}
        try:
            subprocess.run([DLAUNCH, "--version"], stdout=subprocess.DEVNULL, check=True, **nobody)
        except PermissionError:
            self.skipTest("nobody cannot run this dlaunch")
        return super().start(*arguments, **nobody, **streams)


if __name__ == "__main__":
    main()

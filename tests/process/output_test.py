#!/usr/bin/env python3
"""What happens to the workers' output: log files, prefixes, slow and lost readers, full disks.

    DLAUNCH_BIN_DIR=build/bin output_test.py [Class.test ...]

Every wait is for an event and has a deadline.
"""

import array
import fcntl
import json
import os
import pathlib
import pty
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import termios
import time
import unittest

from common import DLAUNCH, PATIENCE, free_port, most_memory_of, state_of, wait_until

SPEAK = "echo out $RANK; echo err $RANK >&2"


class Output(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="dlaunch_output_test.")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.logs = os.path.join(self.dir, "logs")

    def run_job(self, *arguments, preexec_fn=None, **variables):
        return subprocess.run([DLAUNCH, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, preexec_fn=preexec_fn,
                              env={**os.environ, "TMPDIR": self.dir, **variables}, timeout=PATIENCE, check=False)

    def log(self, rank, name="stdout.log", attempt=0):
        with open(os.path.join(self.logs, "latest", f"attempt_{attempt}", str(rank), name), encoding="utf-8") as file:
            return file.read()


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
        self.assertRegex(done.stderr.splitlines()[-1], rf"^dlaunch: the log files in {self.logs}/standalone-\w+ have gaps: {lines} lines \({missing} bytes\) "
                                                       r"could not be written, in 1 file$")
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
        deadline = time.monotonic() + PATIENCE
        while not os.path.exists(os.path.join(self.dir, "done.1")):  # rank 0's output is not read
            self.assertLess(time.monotonic(), deadline, "rank 1 waits")
            time.sleep(0.01)
        self.assertEqual(len(self.log(1)), 6000000)


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
        last = job.stderr.read().decode().splitlines()[-1]
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


class LogsVerb(Output):
    def logs_of(self, *arguments, **variables):
        return subprocess.run([DLAUNCH, "logs", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env={**os.environ, "TMPDIR": self.dir, **variables}, timeout=PATIENCE, check=False)

    def start(self, *arguments):
        """A job that writes log files, once it can be found."""
        job = subprocess.Popen([DLAUNCH, *arguments], cwd=self.dir, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "TMPDIR": self.dir})
        self.addCleanup(job.communicate)
        self.addCleanup(job.kill)
        deadline = time.monotonic() + PATIENCE
        while "log_dir" not in subprocess.run([DLAUNCH, "status", "--json", str(job.pid)], capture_output=True, text=True,
                                              timeout=PATIENCE, check=False).stdout:
            self.assertLess(time.monotonic(), deadline)
        return job

    def follow(self, *arguments):
        follower = subprocess.Popen([DLAUNCH, "logs", "-f", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                                    env={**os.environ, "TMPDIR": self.dir})
        self.addCleanup(follower.communicate)
        self.addCleanup(follower.kill)
        return follower

    @staticmethod
    def holds_a_process(pid):
        """Whether it watches another process: then it has found its job."""
        folder = f"/proc/{pid}/fd"
        try:
            return any("pidfd" in os.readlink(os.path.join(folder, fd)) for fd in os.listdir(folder))
        except OSError:  # closed meanwhile
            return False

    def go(self, name="go"):
        with open(os.path.join(self.dir, name), "w", encoding="utf-8"):
            pass

    def await_logs(self, text, *arguments):
        deadline = time.monotonic() + PATIENCE
        while text not in self.logs_of(*arguments).stdout:
            self.assertLess(time.monotonic(), deadline, text)

    def test_reports_that_nothing_was_written(self):
        self.run_job(f"--log-dir={self.logs}", "-r3", "true")
        logs = self.logs_of(f"--log-dir={self.logs}")
        self.assertEqual((logs.returncode, logs.stdout), (0, ""))
        self.assertRegex(logs.stderr, r"^dlaunch: the log files in \S+ are empty so far\n$")

    def test_shows_what_was_written(self):
        self.run_job("--nproc-per-node=2", f"--log-dir={self.logs}", "-r3", "sh", "-c", SPEAK)
        self.assertEqual(self.logs_of(f"--log-dir={self.logs}").stdout, "[0] out 0\n[0] err 0\n[1] out 1\n[1] err 1\n")
        self.assertEqual(self.logs_of(f"--log-dir={self.logs}", "--rank=1").stdout, "[1] out 1\n[1] err 1\n")
        self.assertEqual(self.logs_of(f"--log-dir={self.logs}", "--attempt=7").returncode, 1)

    def test_of_several_jobs_in_one_directory_the_requested_one(self):
        for name in ("one", "two"):
            self.run_job(f"--rdzv-id={name}", f"--log-dir={self.logs}", "-r1", "echo", f"this is {name}")
        for name in ("one", "two"):
            self.assertEqual(self.logs_of(f"--log-dir={self.logs}", name).stdout, f"[0] this is {name}\n")
            self.assertEqual(self.logs_of(name, DLAUNCH_LOG_DIR=self.logs).stdout, f"[0] this is {name}\n")
            self.assertEqual(self.logs_of(name, PET_LOG_DIR=self.logs).stdout, f"[0] this is {name}\n")
        self.assertEqual(self.logs_of(f"--log-dir={self.logs}").stdout, "[0] this is two\n")
        own = os.path.realpath(os.path.join(self.logs, "latest"))
        self.assertEqual(self.logs_of(f"--log-dir={own}", "two").stdout, "[0] this is two\n")
        self.assertEqual(self.logs_of(f"--log-dir={own}", "one").returncode, 1)
        done = self.logs_of(f"--log-dir={self.logs}", "three")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("no log files of a job 'three' in", done.stderr)

    def test_a_job_that_has_ended_is_found_by_its_id(self):
        name = f"ended-{os.path.basename(self.dir)}"
        for words in ("first", "second"):
            self.run_job(f"--rdzv-id={name}", "-r1", "echo", words)
        self.run_job("--rdzv-id=other", "-r1", "echo", "other")
        for arguments in ((name,), ("-f", name)):
            done = self.logs_of(*arguments)
            self.assertEqual((done.returncode, done.stdout), (0, "[0] second\n"), done.stderr)
        self.assertEqual(self.logs_of("other").stdout, "[0] other\n")

    def test_files_that_were_turned_over_are_shown_too(self):
        self.run_job(f"--log-dir={self.logs}", "-r1", "--log-max-size=10", "--log-keep=2", "sh", "-c",
                     "for i in 1 2 3 4 5 6 7 8 9; do echo line $i; done")
        self.assertEqual(self.logs_of(f"--log-dir={self.logs}").stdout, "[0] line 7\n[0] line 8\n[0] line 9\n")

    def test_a_relative_log_dir_is_found_from_another_directory(self):
        job = self.start("--log-dir=rel", "-r1", "sh", "-c", "echo here; exec sleep 1000")
        self.await_logs("[0] here\n", str(job.pid))
        own = os.path.realpath(os.path.join(self.dir, "rel", "latest"))
        status = subprocess.run([DLAUNCH, "status", "--json", str(job.pid)], capture_output=True, text=True, timeout=PATIENCE, check=True)
        self.assertIn(f'"log_dir":"{own}"', status.stdout)

    def test_follows_a_running_job_to_its_end(self):
        job = self.start(f"--log-dir={self.logs}", "-r1", "sh", "-c",
                         "echo first; while [ ! -e go ]; do sleep 0.01; done; printf 'second\nthird'")
        self.await_logs("first", f"--log-dir={self.logs}")
        follower = self.follow(str(job.pid))
        self.assertEqual(follower.stdout.readline(), "[0] first\n")
        self.go()
        self.assertEqual(follower.stdout.read(), "[0] second\n[0] third\n")
        self.assertEqual(follower.wait(PATIENCE), 0)

    def nodes(self, *arguments):
        """A job of two nodes, whose agents share a --log-dir if it is given."""
        both = ["--nnodes=2", "--master-addr=127.0.0.1", f"--master-port={free_port()}", "--nproc-per-node=2", "-r3", *arguments]
        agents = [subprocess.Popen([DLAUNCH, f"--node-rank={node}", *both], cwd=self.dir, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   text=True, env={**os.environ, "TMPDIR": self.dir}) for node in range(2)]
        for agent in agents:
            self.addCleanup(agent.communicate)
            self.addCleanup(agent.kill)
        return agents

    def named(self, attempt=0, job="none"):
        """What the job's names by rank lead to, and that they lead there also when the place is moved."""
        folder = os.path.join(self.logs, job, str(attempt))
        self.assertFalse([name for name in os.listdir(folder) if os.path.isabs(os.readlink(os.path.join(folder, name)))])
        contents = {}
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                contents[name] = file.read()
        return contents

    def test_nodes_that_share_a_place_name_their_files_by_rank(self):
        for agent in self.nodes(f"--log-dir={self.logs}", "sh", "-c", SPEAK):
            self.assertEqual(agent.wait(PATIENCE), 0)
        expected = {f"rank_{rank}.{stream}": f"{stream} {rank}\n" for rank in range(4) for stream in ("err", "out")}
        self.assertEqual(self.named(), expected)
        self.assertEqual(os.readlink(os.path.join(self.logs, "none", "latest")), "0")
        every = "".join(f"[{rank}] out {rank}\n[{rank}] err {rank}\n" for rank in range(4))
        self.assertEqual(self.logs_of(f"--log-dir={self.logs}").stdout, every)
        own = os.path.realpath(os.path.join(self.logs, "latest"))
        self.assertEqual(self.logs_of(f"--log-dir={own}").stdout, every)
        self.assertEqual(self.logs_of(f"--log-dir={self.logs}", "--rank=2").stdout, "[2] out 2\n[2] err 2\n")

    def follow_both_nodes(self, options, job):
        agents = self.nodes(f"--log-dir={self.logs}", *options, "sh", "-c",
                            "echo here $RANK; while [ ! -e go$RANK ]; do sleep 0.01; done; echo gone $RANK; "
                            "while [ ! -e go ]; do sleep 0.01; done")
        for rank in range(4):
            self.await_logs(f"[{rank}] here {rank}\n", *job)
        follower = self.follow(*job)
        self.assertEqual([follower.stdout.readline() for _ in range(4)], [f"[{rank}] here {rank}\n" for rank in range(4)])
        for rank in (3, 0, 2, 1):
            self.go(f"go{rank}")
            self.assertEqual(follower.stdout.readline(), f"[{rank}] gone {rank}\n")
        self.go()
        self.assertEqual(follower.stdout.read(), "")
        self.assertEqual(follower.wait(PATIENCE), 0)
        for agent in agents:
            self.assertEqual(agent.wait(PATIENCE), 0)

    def test_follows_all_nodes_that_share_a_place(self):
        self.follow_both_nodes([], [f"--log-dir={self.logs}"])

    def test_follows_all_nodes_of_the_job_that_is_named(self):
        name = f"followed-{os.path.basename(self.dir)}"
        self.follow_both_nodes([f"--rdzv-id={name}"], [name])

    def test_a_newer_job_of_the_same_id_takes_the_names(self):
        first = ["--rdzv-id=none", "--nproc-per-node=2", "--max-restarts=1", f"--log-dir={self.logs}", "-r1", "sh", "-c",
                 "echo first $RANK; exit $((1 - TORCHELASTIC_RESTART_COUNT))"]
        self.assertEqual(self.run_job(*first).returncode, 0)
        older = os.path.realpath(os.path.join(self.logs, "latest"))
        self.assertEqual((sorted(self.named(0)), self.named(1)), (["rank_0.out", "rank_1.out"], {"rank_0.out": "first 0\n", "rank_1.out": "first 1\n"}))
        self.run_job("--rdzv-id=none", f"--log-dir={self.logs}", "-r1", "echo", "second")
        self.assertEqual(self.named(0), {"rank_0.out": "second\n"})
        self.assertEqual(sorted(name for name in os.listdir(os.path.join(self.logs, "none")) if name[0] != "."), ["0", "latest"])
        self.assertEqual(len(os.listdir(os.path.join(self.logs, "none"))), 3, "nothing is left of the older job's")
        self.assertEqual(self.logs_of(f"--log-dir={self.logs}").stdout, "[0] second\n")
        self.assertEqual(self.logs_of(f"--log-dir={older}").stdout, "[0] first 0\n[1] first 1\n")

    def test_names_that_cannot_be_made_stop_nothing(self):
        os.mkdir(self.logs)
        with open(os.path.join(self.logs, "none"), "w", encoding="utf-8"):
            done = self.run_job("--rdzv-id=none", "--nproc-per-node=2", "--max-restarts=1", f"--log-dir={self.logs}", "-r1", "sh", "-c",
                                "echo $RANK; exit $((1 - TORCHELASTIC_RESTART_COUNT))")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(re.findall(r"cannot make links by rank to the log files in .*/none: Not a directory", done.stderr)), 1, done.stderr)
        self.assertEqual(self.logs_of(f"--log-dir={self.logs}").stdout, "[0] 0\n[1] 1\n")

    def test_a_node_without_a_shared_place_shows_its_ranks(self):
        agents = self.nodes("sh", "-c", "echo here; while [ ! -e go ]; do sleep 0.01; done")
        for rank in (2, 3):
            self.await_logs(f"[{rank}] here\n", str(agents[1].pid))
        self.assertEqual(self.logs_of(str(agents[1].pid)).stdout, "[2] here\n[3] here\n")
        self.go()
        for agent in agents:
            self.assertEqual(agent.wait(PATIENCE), 0)

    def test_ctrl_c_ends_the_following(self):
        job = self.start(f"--log-dir={self.logs}", "-r1", "sh", "-c", "echo first; exec sleep 1000")
        follower = self.follow(str(job.pid))
        self.assertEqual(follower.stdout.readline(), "[0] first\n")
        follower.send_signal(signal.SIGINT)
        self.assertEqual(follower.wait(PATIENCE), 0)

    def test_follows_across_restarts(self):
        job = self.start("--max-restarts=2", f"--log-dir={self.logs}", "-r1", "sh", "-c",
                         "n=$TORCHELASTIC_RESTART_COUNT; echo try $n; while [ ! -e go$n ]; do sleep 0.01; done; exit $((2 - n))")
        follower = self.follow(str(job.pid))
        for attempt in range(3):
            self.assertEqual(follower.stdout.readline(), f"[0] try {attempt}\n")
            self.go(f"go{attempt}")
        self.assertEqual(follower.stdout.read(), "")
        self.assertEqual(follower.wait(PATIENCE), 0)
        self.assertEqual(self.logs_of("--attempt=1", f"--log-dir={self.logs}").stdout, "[0] try 1\n")

    def test_follows_through_files_that_are_turned_over(self):
        job = self.start(f"--log-dir={self.logs}", "-r1", "--log-max-size=2K", "--log-keep=100", "sh", "-c",
                         "for i in $(seq 3000); do echo line $i; done; while [ ! -e go ]; do sleep 0.01; done")
        follower = self.follow(str(job.pid))
        for i in range(1, 3001):
            self.assertEqual(follower.stdout.readline(), f"[0] line {i}\n")
        self.go()
        self.assertEqual(follower.stdout.read(), "")

    def test_waits_for_a_job_that_has_not_begun(self):
        both = ["--nnodes=2", "--master-addr=127.0.0.1", f"--master-port={free_port()}", "-r1", "sh", "-c", "echo begun as $RANK"]
        first = self.start("--node-rank=0", f"--log-dir={self.logs}", *both)
        done = self.logs_of(str(first.pid))
        self.assertEqual((done.returncode, done.stderr.endswith(" yet\n")), (1, True), done.stderr)
        follower = self.follow(str(first.pid))
        deadline = time.monotonic() + PATIENCE
        while not self.holds_a_process(follower.pid):
            self.assertLess(time.monotonic(), deadline)
        other = self.run_job("--node-rank=1", *both)
        self.assertEqual(other.returncode, 0, other.stderr)
        self.assertEqual(follower.stdout.read(), "[0] begun as 0\n")

    def test_missing_log_files_are_reported(self):
        done = self.logs_of(f"--log-dir={self.dir}")
        self.assertEqual((done.returncode, done.stderr), (1, f"dlaunch: no log files in {self.dir}; give the value of the "
                                                             "job's own --log-dir, or a directory in it\n"))
        self.assertEqual(self.logs_of("no-such-job").returncode, 1)
        self.assertEqual(self.logs_of("--rank=x").returncode, 2)


if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=1)
    skipped_all = program.result.skipped and len(program.result.skipped) == program.result.testsRun
    sys.exit(77 if skipped_all else not program.result.wasSuccessful())

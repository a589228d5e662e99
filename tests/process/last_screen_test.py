#!/usr/bin/env python3
"""What the last screen says of causes that a worker's exit code does not tell: what it wrote, the kernel's limits, a file that
is no program of this machine.

    DLAUNCH_BIN_DIR=build/bin last_screen_test.py [Class.test ...]
"""

import json
import os
import platform
import shutil
import subprocess
import tempfile
import unittest

from common import BIN, DLAUNCH, PATIENCE, environment, main, wait_until

ALL_REDUCE = os.path.join(os.path.dirname(BIN), "tests", "all_reduce_worker")


class LastScreen(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="dlaunch_last_screen_test.")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.dir, name)

    def run_job(self, *arguments, before=()):
        return subprocess.run([*before, DLAUNCH, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=self.dir,
                              env=environment(), timeout=PATIENCE, check=False)


class LastWords(LastScreen):
    WORKER = ["sh", "-c", "echo ERROR: no such folder; exit 3"]

    def test_of_stdout_if_stderr_is_empty(self):
        for how in ([], ["--redirects=3"], ["--tee=3"]):
            done = self.run_job(f"--log-dir={self.path('logs')}", f"--report={self.path('end.json')}", *how, *self.WORKER)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn("dlaunch: the last lines that rank 0 wrote to stdout (nothing to stderr):\n  | ERROR: no such folder\n", done.stderr)
            if how:
                self.assertRegex(done.stderr, r"dlaunch: the output of rank 0 is in \S+/stdout\.log on host ")
            with open(self.path("end.json"), encoding="utf-8") as file:
                cause = json.load(file)["cause"]
            self.assertEqual((cause["stdout"], "stderr" in cause), ("ERROR: no such folder", False))

    def test_of_stderr_if_there_are_some(self):
        done = self.run_job("sh", "-c", "echo step 1; echo bad >&2; exit 3")
        self.assertIn("the last lines that rank 0 wrote to stderr:\n  | bad\n", done.stderr)
        self.assertNotIn("| step 1", done.stderr)

    def test_the_exception_that_nothing_caught_is_in_the_last_line(self):
        done = self.run_job("sh", "-c", "printf \"terminate called after throwing an instance of 'std::runtime_error'\\n"
                            "  what():  31998 entries\\n\" >&2; kill -ABRT $$")
        self.assertEqual(done.returncode, 134)
        self.assertRegex(done.stderr.splitlines()[-1], r"was killed by signal 6 \(SIGABRT\)(, core dumped)?: std::runtime_error: 31998 entries; ")

    def test_a_missing_library_is_named_with_what_to_do(self):
        done = self.run_job("sh", "-c", "echo './probe: error while loading shared libraries: libx.so.1: cannot open shared object file: "
                            "No such file or directory' >&2; exit 127")
        self.assertRegex(done.stderr.splitlines()[-1], r"exited with code 127: the shared library libx\.so\.1 was not found; .*LD_LIBRARY_PATH")


class Programs(LastScreen):
    def test_of_another_machine_are_no_scripts(self):
        program = self.path("far")
        machine, name = (183, "an aarch64") if platform.machine() != "aarch64" else (62, "an x86_64")
        with open(program, "wb") as file:
            file.write(b"\x7fELF\x02\x01\x01" + bytes(11) + bytes([machine]) + bytes(100) + b"\necho run by a shell >&2\n")
        os.chmod(program, 0o755)
        done = self.run_job(program)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr.splitlines()[-1], rf"could not be started: it is {name} program, and this machine is \w+ ")
        self.assertNotIn("run by a shell", done.stderr)


class Names(LastScreen):
    def setUp(self):
        super().setUp()
        for name in ("train_mnist", "evaluate.py"):
            with open(self.path(name), "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\n")
            os.chmod(self.path(name), 0o755)

    def test_a_mistyped_program_is_answered_with_the_right_one(self):
        for typed, meant in (("./train_mnst", "./train_mnist"), ("train_mnst", "./train_mnist"), ("evalute.py", "./evaluate.py"),
                             (self.path("train_mnits"), self.path("train_mnist"))):
            done = self.run_job(typed)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, rf"^dlaunch: cannot start '{typed}': .*; did you mean {meant}\?\n$")

    def test_what_nothing_is_like_keeps_its_advice(self):
        self.assertIn("; check its name, or give a path\n", self.run_job("no-such-program-anywhere").stderr)
        self.assertIn("; check the path\n", self.run_job("./no-such-program-anywhere").stderr)


class Environment(LastScreen):
    @unittest.skipUnless(os.path.exists(ALL_REDUCE), "without the gloo backend")
    def test_a_variable_that_was_changed_behind_dlaunch(self):
        done = self.run_job("sh", "-c", f"WORLD_SIZE=abc exec {ALL_REDUCE} 10")
        self.assertIn("the environment variable WORLD_SIZE is 'abc', not a number; dlaunch had set it: something between dlaunch and "
                      "this program changed it\n", done.stderr)


class Limits(LastScreen):
    def make_group(self, limit):
        """A control group with so many processes and threads; the words of a command that begins in it."""
        unified = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
        root = "/sys/fs/cgroup" if unified else "/sys/fs/cgroup/pids"
        group = os.path.join(root, f"dlaunch_test_{os.getpid()}")
        try:
            if unified:
                with open(os.path.join(root, "cgroup.subtree_control"), "w", encoding="utf-8") as file:
                    file.write("+pids")
            os.mkdir(group)
            self.addCleanup(self.remove_group, group)
            with open(os.path.join(group, "pids.max"), "w", encoding="utf-8") as file:
                file.write(str(limit))
        except OSError as error:
            self.skipTest(f"no control group with a limit on processes can be made here: {error}")
        return os.path.basename(group), ["sh", "-c", f"echo $$ > {group}/cgroup.procs && exec \"$@\"", "sh"]

    @staticmethod
    def remove_group(group):
        def is_gone():  # not until the kernel has let the last process go
            try:
                os.rmdir(group)
            except OSError:
                return False
            return True
        wait_until(is_gone, f"{group} is empty")

    def test_a_worker_too_many_is_reported_with_its_cgroup(self):
        name, inside = self.make_group(6)
        done = self.run_job("--nproc-per-node=8", "sleep", "1000", before=inside)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr.splitlines()[-1], rf"could not be started: .*\(pids\.max is 6 in cgroup \S*/{name}\); raise the limit on processes: ")

    def test_a_process_too_many_in_a_worker_is_reported_with_its_cgroup(self):
        name, inside = self.make_group(12)
        done = self.run_job("sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13; do sleep 1000 & done; wait", before=inside)
        self.assertNotEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr.splitlines()[-1], r"a limit on processes and threads was reached meanwhile "
                         rf"\(pids\.max is 12 in cgroup \S*/{name}\)")

    @unittest.skipUnless(os.path.exists(ALL_REDUCE), "without the gloo backend")
    def test_a_thread_too_many_is_reported_with_its_cgroup(self):
        # dlaunch, guard and keeper; four workers, and no room for a thread of each.
        name, inside = self.make_group(8)
        done = self.run_job("--nproc-per-node=4", ALL_REDUCE, "10", before=inside)
        self.assertNotEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, rf"a limit on processes and threads (is|was) reached .*\(pids\.max is 8 in cgroup \S*/{name}\)")
        self.assertNotIn("cannot use the local address", done.stderr)

    def test_a_file_size_limit_is_no_silent_end(self):
        done = self.run_job("--tee=3", f"--log-dir={self.path('logs')}", "sh", "-c", "yes 0123456789 | head -c 200000; echo done >&2",
                            before=["sh", "-c", 'ulimit -f 10; exec "$@"', "sh"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"dlaunch: cannot write \S+/stdout\.log: File too large; ")
        self.assertRegex(done.stderr.splitlines()[-1], r"dlaunch: the log files in \S+ have gaps: ")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What the last screen says of causes that a worker's exit code does not tell: what it wrote, the kernel's limits, a file that
is no program of this machine.

    DLAUNCH_BIN_DIR=build/bin last_screen_test.py [Class.test ...]
"""

import json
import os
import platform
import resource
import shutil
import subprocess
import tempfile
import unittest

from common import BIN, DLAUNCH, PATIENCE, environment, is_sanitized, main, remedy, summary
from control_group import ControlGroup

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
        self.assertRegex(summary(done.stderr), r"was killed by signal 6 \(SIGABRT\)(, core dumped)?: std::runtime_error: 31998 entries; ")

    def test_a_missing_library_is_named_with_what_to_do(self):
        done = self.run_job("sh", "-c", "echo './probe: error while loading shared libraries: libx.so.1: cannot open shared object file: "
                            "No such file or directory' >&2; exit 127")
        self.assertRegex(summary(done.stderr), r"exited with code 127: the shared library libx\.so\.1 was not found; not restarted")
        self.assertRegex(remedy(done.stderr), r"^ldd sh on host \S+ lists what is missing; add the folder of libx\.so\.1 to LD_LIBRARY_PATH")


class Remedies(LastScreen):
    def in_shell(self, script, before=()):
        done = self.run_job("sh", "-c", script, before=before)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(summary(done.stderr), "^dlaunch: failed: ")
        return remedy(done.stderr)

    def test_none_for_a_failure_that_only_its_author_knows(self):
        self.assertEqual(self.in_shell("echo loss is NaN >&2; exit 3"), "")

    def test_a_library_beside_dlaunch_is_found(self):
        folder = os.path.join(os.path.dirname(BIN), "lib")
        names = [name for name in os.listdir(folder) if name.startswith("libdlaunch.so.")]
        if not names:
            self.skipTest("libdlaunch is not built")
        said = self.in_shell(f"echo './p: error while loading shared libraries: {names[0]}: cannot open shared object file: ' >&2; exit 127")
        self.assertRegex(said, rf"^dlaunch --export=LD_LIBRARY_PATH={folder} \.\.\. ")

    def test_a_command_that_is_not_there_and_one_that_may_not_run(self):
        self.assertRegex(self.in_shell("no-such-command-anywhere"), "^install no-such-command-anywhere on host ")
        self.assertRegex(self.in_shell("echo > script; exec ./script"), r"^chmod \+x ./script on host ")

    def test_the_limit_that_a_worker_has_met(self):
        limited = ["sh", "-c", 'ulimit -f 10; exec "$@"', "sh"]
        self.assertRegex(self.in_shell("exec yes > file", limited), r"^raise ulimit -f on host \S+: it is \d+(\.\d)? KiB")
        limited = ["sh", "-c", 'ulimit -v 2000000; exec "$@"', "sh"]
        if not is_sanitized():
            self.assertRegex(self.in_shell("echo MemoryError >&2; exit 1", limited), r"^raise ulimit -v on host \S+: it is 1\.9 GiB")

    def test_a_crash_leads_to_a_core_dump_and_the_core_dump_to_a_stack(self):
        with open("/proc/sys/kernel/core_pattern", encoding="utf-8") as file:
            if file.read().strip() != "core" or resource.getrlimit(resource.RLIMIT_CORE)[1] != resource.RLIM_INFINITY:
                self.skipTest("core dumps go elsewhere here, or may not be as large as they get")
        crash = "kill -SEGV $$"
        # AddressSanitizer would forbid core dumps to itself and all that it starts.
        allow = 'ASAN_OPTIONS="$ASAN_OPTIONS:disable_coredump=0"; export ASAN_OPTIONS'
        off, on = (["sh", "-c", f'{allow}; ulimit -Sc {limit}; exec "$@"', "sh"] for limit in ("0", "unlimited"))
        self.assertRegex(self.in_shell(crash, off), rf"^'ulimit -c unlimited' before dlaunch \(it is 0 on host \S+\), then gdb -batch -ex bt sh "
                         rf"{self.dir}/core(\.\*)?$")
        said = self.in_shell(crash, on)
        self.assertRegex(said, rf"^gdb -batch -ex bt sh {self.dir}/core(\.\d+)? on host \S+$")
        self.assertTrue(os.path.exists(said.split()[5]), said)
        if shutil.which("gdb"):
            stack = subprocess.run(said.split()[:6], cwd=self.dir, capture_output=True, text=True, timeout=PATIENCE, check=False)
            self.assertIn("\n#0 ", stack.stdout, stack.stderr)

    def test_a_crash_where_no_core_dump_is_allowed(self):
        with open("/proc/sys/kernel/core_pattern", encoding="utf-8") as file:
            if file.read().startswith("|"):
                self.skipTest("the limit on core dumps does not count here")
        said = self.in_shell("kill -FPE $$", ["sh", "-c", 'ulimit -c 0; exec "$@"', "sh"])
        self.assertRegex(said, r"^dlaunch \.\.\. gdb -batch -ex run -ex bt --args sh \.\.\. prints the stack" if os.path.exists("/usr/bin/gdb")
                         else r"^allow core dumps on host \S+ \(ulimit -Hc is 0: ")

    def test_a_kill_by_hand(self):
        with open("/proc/vmstat", encoding="ascii") as vmstat:
            if "\noom_kill " not in vmstat.read():
                self.skipTest("this kernel does not count its own kills")
        self.assertRegex(self.in_shell("kill -KILL $$"), r"^dmesg, journalctl and the log of .* may name who killed it$")

    def test_a_python_module_that_is_not_there(self):
        with open(self.path("train.py"), "w", encoding="utf-8") as file:
            file.write("import no_such_module_anywhere.part\n")
        said = remedy(self.run_job("train.py").stderr)
        self.assertRegex(said, r"^install the package of no_such_module_anywhere for \S*python\S* on host ")


class Programs(LastScreen):
    def test_of_another_machine_are_no_scripts(self):
        program = self.path("far")
        machine, name = (183, "an aarch64") if platform.machine() != "aarch64" else (62, "an x86_64")
        with open(program, "wb") as file:
            file.write(b"\x7fELF\x02\x01\x01" + bytes(11) + bytes([machine]) + bytes(100) + b"\necho run by a shell >&2\n")
        os.chmod(program, 0o755)
        done = self.run_job(program)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(summary(done.stderr), rf"could not be started: it is {name} program, and this machine is \w+ ")
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
    def test_a_worker_too_many_is_reported_with_its_cgroup(self):
        group = ControlGroup(self, pids=6)
        done = self.run_job("--nproc-per-node=8", "sleep", "1000", before=group.inside())
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(summary(done.stderr), rf"could not be started: .*\(pids\.max is 6 in cgroup \S*/{group.name}\); raise the limit on processes: ")

    def test_a_process_too_many_in_a_worker_is_reported_with_its_cgroup(self):
        group = ControlGroup(self, pids=12)
        done = self.run_job("sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13; do sleep 1000 & done; wait", before=group.inside())
        self.assertNotEqual(done.returncode, 0, done.stderr)
        self.assertRegex(summary(done.stderr), r"a limit on processes and threads was reached meanwhile "
                         rf"\(pids\.max is 12 in cgroup \S*/{group.name}\)")

    @unittest.skipUnless(os.path.exists(ALL_REDUCE), "without the gloo backend")
    def test_a_thread_too_many_is_reported_with_its_cgroup(self):
        # dlaunch, guard and keeper; four workers, and no room for a thread of each.
        group = ControlGroup(self, pids=8)
        done = self.run_job("--nproc-per-node=4", ALL_REDUCE, "10", before=group.inside())
        self.assertNotEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, rf"a limit on processes and threads (is|was) reached .*\(pids\.max is 8 in cgroup \S*/{group.name}\)")
        self.assertNotIn("cannot use the local address", done.stderr)

    def test_a_file_size_limit_is_no_silent_end(self):
        done = self.run_job("--tee=3", f"--log-dir={self.path('logs')}", "sh", "-c", "yes 0123456789 | head -c 200000; echo done >&2",
                            before=["sh", "-c", 'ulimit -f 10; exec "$@"', "sh"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"dlaunch: cannot write \S+/stdout\.log: File too large; ")
        self.assertRegex(summary(done.stderr), r"dlaunch: the log files in \S+ have gaps: ")


if __name__ == "__main__":
    main()

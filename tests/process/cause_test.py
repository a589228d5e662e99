#!/usr/bin/env python3
"""What is said of a failure while it happens, and that its cause is never lost: the rank whose exception others notice
first is named, and its words are on the screen.

    DLAUNCH_BIN_DIR=build/bin cause_test.py [Class.test ...]
"""

import gzip
import json
import math
import os
import re
import struct
import subprocess
import tempfile
import unittest

from common import BIN, DLAUNCH, PATIENCE, environment, free_port, is_sanitized, main, remedy, summary

TESTS = os.path.join(os.path.dirname(BIN), "tests")
THROWER = os.path.join(TESTS, "thrower")
CRASHER = os.path.join(TESTS, "crasher")


class Cause(unittest.TestCase):
    def run_job(self, *arguments):
        with tempfile.TemporaryDirectory(prefix="dlaunch_cause_test.") as folder:
            report = os.path.join(folder, "end.json")
            done = subprocess.run([DLAUNCH, f"--report={report}", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  env=environment(), timeout=PATIENCE, check=False)
            with open(report, encoding="utf-8") as file:
                return done, json.load(file)


@unittest.skipIf(is_sanitized(), "the sanitizers handle these signals themselves")
class Crashes(Cause):
    def crash(self, how, *arguments):
        done, report = self.run_job("--nproc-per-node=2", *arguments, CRASHER, "1", how)
        self.assertEqual(report["cause"]["rank"], 1, done.stderr)
        return done.stderr, report["cause"]

    def expect(self, how, end, function="crasher::broken", last=r"main in crasher\+0x"):
        err, cause = self.crash(how)
        self.assertRegex(summary(err), rf"^dlaunch: failed: rank 1 \(.*\) {end}; not restarted", err)
        self.assertRegex(err, rf"dlaunch: the stack of rank 1 when it crashed:\n  \| #0 {function}\(.*\) in crasher\+0x[0-9a-f]+\n(  \| #.*\n)*"
                         rf"  \| (#\d+ )?{last}")
        self.assertRegex(remedy(err), rf"^addr2line -Cfpie {re.escape(os.path.realpath(CRASHER))}( 0x[0-9a-f]+)+ on host \S+ shows the source lines")
        self.assertRegex(cause["traceback"], rf"^#0 {function}\(")

    def test_the_function_and_the_address_of_a_fault_are_named(self):
        self.expect("null", r"was killed by signal 11 \(SIGSEGV\)(, core dumped)?: segmentation fault at address 0x0 \(a null pointer\), "
                    r"in crasher::broken\(.*\)")

    def test_an_overflow_of_the_stack_is_recorded(self):
        self.expect("overflow", r"was killed by signal 11 \(SIGSEGV\).*: segmentation fault at address 0x[0-9a-f]+, in crasher::deepen\(.*\)",
                    "crasher::deepen", r"\.\.\. and \d+ more\n")

    def test_a_division_by_zero_is_named(self):
        self.expect("divide", r"was killed by signal 8 \(SIGFPE\).*: integer division by zero, in crasher::broken\(.*\)")

    def test_the_caller_of_abort_is_named(self):
        self.expect("abort", r"was killed by signal 6 \(SIGABRT\).*: aborted, in crasher::broken\(.*\)")

    def test_the_exception_and_its_thrower_are_named(self):
        ending = r"was killed by signal 6 \(SIGABRT\).*: std::runtime_error: loss is NaN, thrown in crasher::broken\(.*\)"
        self.expect("throw", ending)
        self.expect("handled", ending)

    def test_a_call_of_no_function_names_the_caller(self):
        err, _ = self.crash("call")
        self.assertRegex(err, r"segmentation fault at address 0x0 \(a null pointer\), in 0x0, called by crasher::broken\(")

    def test_the_programs_handler_decides_how_it_ends(self):
        err, cause = self.crash("own")
        self.assertEqual(cause["exit_code"], 7, err)
        self.assertRegex(summary(err), r" exited with code 7: segmentation fault at address 0x0 \(a null pointer\), in crasher::broken\(")

    def test_a_variable_turns_it_off(self):
        err, cause = self.crash("null", "--export=DLAUNCH_CRASH_STACK=0")
        self.assertRegex(summary(err), r" was killed by signal 11 \(SIGSEGV, segmentation fault\)(, core dumped)?; ")
        self.assertNotIn("traceback", cause)


class Exceptions(Cause):
    def named(self, rank, words, done, report):
        """The rank is the cause: its exit, or, if its end takes longer than dlaunch waits for it, that it left its group."""
        self.assertEqual(report["cause"]["rank"], rank, done.stderr)
        how = "exited with code 1(: train_mnist: cannot write checkpoint .*)?"
        if report["cause"]["kind"] == "left":
            how = r"left the group at \w+ #\d+ of group default while an exception was on its way .*"
        else:
            self.assertIn(words, done.stderr)
        self.assertRegex(summary(done.stderr), rf"^dlaunch: failed: rank {rank} \(.*\) {how}; ", done.stderr)

    def test_an_exception_is_reported_with_its_rank(self):
        """The exception leaves the group before main prints it, so the other ranks learn of that first and end first."""
        for workers in (4, 8):
            for run in range(6):
                bad = run % workers
                done, report = self.run_job(f"--nproc-per-node={workers}", THROWER, str(bad))
                self.assertEqual(done.returncode, 1)
                self.named(bad, "thrower: loss is NaN\n", done, report)

    def test_a_rank_that_throws_and_does_not_end_is_reported(self):
        done, report = self.run_job("--nproc-per-node=4", THROWER, "1", "1000")
        self.assertRegex(summary(done.stderr),
                         r"^dlaunch: failed: rank 1 \(local rank 1, node 0, host \S+, pid \d+\) left the group at all_reduce #(?:19|20) of group "
                         r"default while an exception was on its way \(its last line: thinking\); rank [023] noticed it; ", done.stderr)
        self.assertIn("peer 1 on ", done.stderr)
        self.assertIn(": it has left the group while an exception was on its way\n", done.stderr)
        self.assertEqual((report["cause"]["kind"], report["cause"]["rank"], report["exit_code"]), ("left", 1, 1))
        self.assertNotIn(1, [other["rank"] for other in report["others"]])

    def test_a_checkpoint_that_cannot_be_written_is_reported(self):
        """As on a full disk: rank 0 finds out when it writes, while the others go on to the next epoch."""
        with tempfile.TemporaryDirectory(prefix="dlaunch_cause_test.") as folder:
            for name, magic, sizes in (("train-images-idx3", 0x803, (1000, 28, 28)), ("train-labels-idx1", 0x801, (1000,)),
                                       ("t10k-images-idx3", 0x803, (100, 28, 28)), ("t10k-labels-idx1", 0x801, (100,))):
                with gzip.open(os.path.join(folder, f"{name}-ubyte.gz"), "wb") as data:  # short epochs
                    data.write(struct.pack(f">{1 + len(sizes)}I", magic, *sizes) + bytes(math.prod(sizes)))
            name = os.path.join(folder, "c" * 252)  # the temporary file's is longer than names may be
            for _ in range(3):
                done, report = self.run_job("--nproc-per-node=4", os.path.join(BIN, "train_mnist"), "--epochs=2", f"--data={folder}",
                                            f"--checkpoint={name}")
                self.assertIn("train_mnist: cannot write checkpoint ", done.stderr)
                self.named(0, "File name too long\n", done, report)

    def test_a_rank_that_returns_0_too_early_is_reported(self):
        done, report = self.run_job("--nproc-per-node=3", os.path.join(TESTS, "straggler"), "gone")
        self.assertRegex(summary(done.stderr),
                         r"^dlaunch: failed: rank 2 \(.*\) left the group at \S+ #4 of group default and returned 0; rank [01] noticed it; ",
                         done.stderr)
        self.assertEqual((report["cause"]["kind"], report["cause"]["rank"]), ("left", 2))
        self.assertIn("the same number of steps", remedy(done.stderr))
        self.assertEqual(report["cause"]["try"], remedy(done.stderr))


class AtOnce(Cause):
    def test_a_failure_is_reported_at_once_and_processes_that_ignore_the_stop_are_named(self):
        folder = tempfile.TemporaryDirectory(prefix="dlaunch_cause_test.")
        self.addCleanup(folder.cleanup)
        job = subprocess.Popen([DLAUNCH, "--nproc-per-node=3", "--stop-timeout=2", "sh", "-c",
                                "[ $RANK = 0 ] && trap '' TERM && echo ready && while :; do sleep 0.05; done; "
                                f"[ $RANK = 1 ] && {{ until [ -e {folder.name}/go ]; do sleep 0.01; done; exit 5; }}; exec sleep 1000"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
        self.addCleanup(job.communicate)
        self.addCleanup(job.kill)
        self.assertEqual(job.stdout.readline(), "ready\n")
        with open(os.path.join(folder.name, "go"), "w", encoding="utf-8"):
            pass
        self.assertEqual(job.stderr.readline(), "dlaunch: rank 1 exited with code 5; stopping the other 2: SIGTERM, at most 2 s\n")
        self.assertIsNone(job.poll())
        said = job.communicate(timeout=PATIENCE)[1].splitlines()
        self.assertRegex(said[0], r"^dlaunch: rank 0 \(pid \d+\) ignored SIGTERM for 2 s \(--stop-timeout\): sending SIGKILL$")
        self.assertRegex(said[-1], r"^dlaunch: failed: rank 1 \(.*\) exited with code 5; ")

    def test_a_restart_shows_the_last_words_of_its_cause(self):
        done, _ = self.run_job("--nproc-per-node=2", "--max-restarts=1", "sh", "-c",
                               "[ $RANK = 1 ] || exec sleep 1000; echo attempt $TORCHELASTIC_RESTART_COUNT >&2; exit 3")
        restart = done.stderr.index("dlaunch: restarting all 2 workers")
        self.assertIn("dlaunch: the last lines that rank 1 wrote to stderr:\n  | attempt 0\n", done.stderr[:restart])
        self.assertIn("  | attempt 1\n", done.stderr[restart:])

    def test_a_job_without_failures_is_silent(self):
        done = subprocess.run([DLAUNCH, "--nproc-per-node=3", "true"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env=environment(), timeout=PATIENCE, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))


class Nodes(Cause):
    def start(self, port, node, *arguments):
        job = subprocess.Popen([DLAUNCH, f"--node-rank={node}", "--master-addr=127.0.0.1", f"--master-port={port}", *arguments],
                               stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment())
        self.addCleanup(job.communicate)
        self.addCleanup(job.kill)
        return job

    def test_node_0_hears_of_a_node_that_cannot_start_its_program(self):
        port = free_port()
        first = self.start(port, 0, "--nnodes=2", "sleep", "1000")
        other = self.start(port, 1, "--nnodes=2", "./no-such-program")
        self.assertRegex(other.communicate(timeout=PATIENCE)[1], r"^dlaunch: cannot start './no-such-program'")
        self.assertRegex(summary(first.communicate(timeout=PATIENCE)[1]),
                         r"^dlaunch: failed: node 1 \(host \S+\): cannot start './no-such-program': ")
        self.assertEqual((first.returncode, other.returncode), (1, 1))

    def test_node_0_shows_the_output_of_a_remote_cause_before_a_restart(self):
        port = free_port()
        worker = ["--nnodes=2", "--max-restarts=1", "sh", "-c", "[ $RANK = 1 ] || { [ $TORCHELASTIC_RESTART_COUNT = 1 ] || exec sleep 1000; "
                  "exit 0; }; echo attempt $TORCHELASTIC_RESTART_COUNT >&2; exit $((3 - 3 * TORCHELASTIC_RESTART_COUNT))"]
        first, other = (self.start(port, node, *worker) for node in range(2))
        said = first.communicate(timeout=PATIENCE)[1]
        other.communicate(timeout=PATIENCE)
        self.assertEqual((first.returncode, other.returncode), (0, 0), said)
        restart = said.index("dlaunch: restarting all 2 workers")
        self.assertIn("dlaunch: the last lines that rank 1 wrote to stderr:\n  | attempt 0\n", said[:restart])

    def test_node_0_remembers_refused_nodes(self):
        port = free_port()
        first = self.start(port, 0, "--nnodes=2", "--join-timeout=5", "sleep", "1000")
        other = self.start(port, 1, "--nnodes=3", "sleep", "1000")
        refused = other.communicate(timeout=PATIENCE)[1]
        self.assertIn(" refused this node: this job has --nnodes=2, not --nnodes=3", summary(refused))
        said = first.communicate(timeout=PATIENCE)[1]
        for screen in (refused, said):
            self.assertRegex(remedy(screen), "^start host [^ ]+ with --nnodes=2, or all others with --nnodes=3$")
        self.assertRegex(summary(said),
                         r"node 1 of 2 did not join at \S+ within 5 s \(--join-timeout\); refused meanwhile: host \S+ \(this job has --nnodes=2, not --nnodes=3\)$")


if __name__ == "__main__":
    main()

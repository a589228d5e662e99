#!/usr/bin/env python3
"""What dlaunch says when a job has failed: to people, to programs, and to whoever started it.

    DLAUNCH_BIN_DIR=build/bin failure_test.py [Class.test ...]

Every wait is for an event and has a deadline.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

DLAUNCH = os.path.join(os.path.abspath(os.environ["DLAUNCH_BIN_DIR"]), "dlaunch")
PATIENCE = 60  # seconds until a wait for an event is a failure
PYTHON = "/usr/bin/python3"  # Debian's, which has torch

RECORDED = """
import os, time
from torch.distributed.elastic.multiprocessing.errors import record
@record
def main():
    if os.environ["RANK"] == "1":
        raise RuntimeError("boom in the middle")
    time.sleep(1000)
main()
"""


class Failure(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="dlaunch_failure_test.")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.tmp = os.path.join(self.dir, "tmp")
        os.mkdir(self.tmp)

    def path(self, name):
        return os.path.join(self.dir, name)

    def run_job(self, *arguments, **variables):
        environment = {**os.environ, "TMPDIR": self.tmp, **variables}
        if "TORCHELASTIC_ERROR_FILE" not in variables:
            environment.pop("TORCHELASTIC_ERROR_FILE", None)
        return subprocess.run([DLAUNCH, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=self.dir,
                              env=environment, timeout=PATIENCE, check=False)

    def say(self, error):
        """A worker that leaves this in its error file and fails."""
        return ["sh", "-c", f"printf '%s' '{error}' > $TORCHELASTIC_ERROR_FILE; exit 3"]


class ErrorFiles(Failure):
    def test_what_record_writes_is_in_the_last_line(self):
        if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode != 0:
            self.skipTest(f"{PYTHON} has no torch")
        with open(self.path("train.py"), "w", encoding="utf-8") as file:
            file.write(RECORDED)
        done = self.run_job("--nproc-per-node=2", "train.py", PYTHON_EXEC=PYTHON)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr.splitlines()[-1],
                         r"^dlaunch: failed: rank 1 \(.*\) exited with code 1: RuntimeError: boom in the middle; no restarts")
        self.assertIn("  | RuntimeError: boom in the middle", done.stderr)

    def test_the_traceback_stands_in_for_a_silent_stderr(self):
        done = self.run_job(*self.say('{"message": {"message": "E: x", "extraInfo": {"py_callstack": "Traceback\\n  here"}}}'))
        self.assertIn("  | Traceback\n  |   here\n", done.stderr)

    def test_what_is_no_error_file_is_ignored(self):
        for error in ("{", "[1]", '{"message": 5}', "x" * 5000):
            done = self.run_job(*self.say(error))
            self.assertEqual(done.returncode, 3)
            self.assertRegex(done.stderr.splitlines()[-1], r"exited with code 3; no restarts were allowed")

    def test_each_worker_of_each_attempt_has_its_own_and_nothing_stays(self):
        done = self.run_job("--nproc-per-node=3", "--max-restarts=1", "sh", "-c",
                            "echo $TORCHELASTIC_ERROR_FILE; [ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0; "
                            "echo > seen.$RANK; while [ ! -e seen.0 ] || [ ! -e seen.1 ]; do sleep 0.005; done; "
                            "[ $RANK = 2 ] && exit 1; exec sleep 1000")
        self.assertEqual(done.returncode, 0, done.stderr)
        files = done.stdout.split()
        self.assertEqual(len(set(files)), 6, files)
        self.assertTrue(all(file.startswith(self.tmp) for file in files), files)
        self.assertEqual(os.listdir(self.tmp), [])

    def test_nothing_stays_after_kill_9(self):
        job = subprocess.Popen([DLAUNCH, "sh", "-c", "echo > $TORCHELASTIC_ERROR_FILE; echo up; exec sleep 1000"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": self.tmp})
        self.assertEqual(job.stdout.readline(), b"up\n")
        self.assertEqual(len(os.listdir(self.tmp)), 1)
        job.kill()
        job.communicate()
        deadline = time.monotonic() + PATIENCE
        while os.listdir(self.tmp):  # the keeper's last act
            self.assertLess(time.monotonic(), deadline, "the directory stays")
            time.sleep(0.005)

    def test_a_dlaunch_that_is_a_worker_tells_its_own_agent(self):
        done = self.run_job(DLAUNCH, *self.say('{"message": "inner words"}'))
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stderr.splitlines()[-1],
                         r"^dlaunch: failed: rank 0 \(.*\) exited with code 3: rank 0 \(.*\) exited with code 3: inner words; ")

    def test_the_first_exception_is_the_cause_though_its_process_ends_last(self):
        done = self.run_job("--nproc-per-node=3", "sh", "-c",
                            """if [ $RANK = 1 ]; then
                                 printf '{"message": "the cause"}' > $TORCHELASTIC_ERROR_FILE
                                 trap '' TERM; echo > failed; while [ ! -e stopped ]; do sleep 0.005; done; exit 8
                               fi
                               while [ ! -e failed ]; do sleep 0.005; done
                               [ $RANK = 0 ] && exit 1
                               trap 'echo > stopped; exit 5' TERM; while :; do sleep 0.005; done""")
        self.assertEqual(done.returncode, 8, done.stderr)
        lines = done.stderr.splitlines()
        self.assertRegex(lines[-1], r"^dlaunch: failed: rank 1 \(.*\) exited with code 8: the cause; no restarts")
        self.assertEqual(lines[-4], "dlaunch: after that also failed:")
        self.assertRegex(lines[-3], r"^  rank 0 \(.*\) exited with code 1$")
        self.assertRegex(lines[-2], r"^  rank 2 \(.*\) exited with code 5$")

    def test_a_full_temporary_folder_is_said(self):
        done = self.run_job("true", TMPDIR="/proc")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^dlaunch: cannot make a directory in /proc: .*; make room there, or point TMPDIR elsewhere\n$")


class Reports(Failure):
    def report(self, *arguments):
        done = self.run_job(f"--report={self.path('end.json')}", *arguments)
        with open(self.path("end.json"), encoding="utf-8") as file:
            report = json.load(file)
        self.assertEqual(report["exit_code"], done.returncode)
        return report

    def test_of_a_failure(self):
        report = self.report("--nproc-per-node=2", "--max-restarts=1", "--rdzv-id=j", "sh", "-c",
                             "[ $RANK = 0 ] && exec sleep 1000; echo bad >&2; exit 4")
        cause = report["cause"]
        self.assertEqual((report["job"], report["failed"], report["restarts_used"], report["max_restarts"]), ("j", True, 1, 1))
        self.assertEqual((cause["kind"], cause["rank"], cause["local_rank"], cause["exit_code"], cause["stderr"], cause["round"]),
                         ("worker", 1, 1, 4, "bad", 1))
        self.assertLessEqual(report["began"], report["ended"])

    def test_of_a_signal_and_of_what_the_worker_said(self):
        self.assertEqual(self.report("sh", "-c", "kill -SEGV $$")["cause"]["signal"], 11)
        self.assertEqual(self.report(*self.say('{"message": "my words"}'))["cause"]["error"], "my words")

    def test_of_success(self):
        report = self.report("true")
        self.assertEqual((report["failed"], report["exit_code"]), (False, 0))
        self.assertNotIn("cause", report)

    def test_replaces_the_old_one_whole(self):
        self.report("sh", "-c", "exit 1")
        self.report("true")
        self.assertEqual(sorted(os.listdir(self.dir)), ["end.json", "tmp"])

    def test_a_place_that_cannot_be_written_is_said_before_the_job(self):
        done = self.run_job("--report=/nowhere/x.json", "sh", "-c", "echo started")
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (1, "", "dlaunch: cannot write /nowhere/x.json: No such file or directory; choose another place\n"))


if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=1)
    skipped_all = program.result.skipped and len(program.result.skipped) == program.result.testsRun
    sys.exit(77 if skipped_all else not program.result.wasSuccessful())

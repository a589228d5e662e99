#!/usr/bin/env python3
"""What dlaunch says when a job has failed: to people, to programs, and to whoever started it.

    DLAUNCH_BIN_DIR=build/bin failure_test.py [Class.test ...]

Every wait is for an event and has a deadline.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from common import DLAUNCH, PATIENCE, TORCH_PYTHON, free_port, helpers_of, main, remedy, summary, wait_until
from control_group import ControlGroup
from hosts import Hosts

PYTHON = TORCH_PYTHON

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


# The exception comes first, but its process has still much to do when the other one, its victim, has ended.
SLOW_TO_DIE = """
import atexit, os, sys, time
from torch.distributed.elastic.multiprocessing.errors import record
@record
def main():
    if os.environ["RANK"] == "1":
        atexit.register(time.sleep, 1000)
        raise RuntimeError("the cause")
    while not os.path.exists(os.environ["TORCHELASTIC_ERROR_FILE"].replace("0_0.", "0_1.")):
        time.sleep(0.005)
    time.sleep(0.2)
    sys.exit(7)
main()
"""

# A program that takes 2 GiB.
HUNGRY = [PYTHON, "-c", "x = b'x' * (2 << 30); print(len(x))"]


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

    def needs_torch(self):
        if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode != 0:
            self.skipTest(f"{PYTHON} has no torch")

    def report(self, *arguments, **variables):
        done = self.run_job(f"--report={self.path('end.json')}", *arguments, **variables)
        with open(self.path("end.json"), encoding="utf-8") as file:
            report = json.load(file)
        self.assertEqual(report["exit_code"], done.returncode)
        return report

    def say(self, error):
        """A worker that leaves this in its error file and fails."""
        return ["sh", "-c", f"printf '%s' '{error}' > $TORCHELASTIC_ERROR_FILE; exit 3"]


class ErrorFiles(Failure):
    def test_what_record_writes_is_in_the_last_line(self):
        self.needs_torch()
        with open(self.path("train.py"), "w", encoding="utf-8") as file:
            file.write(RECORDED)
        done = self.run_job("--nproc-per-node=2", "train.py", PYTHON_EXEC=PYTHON)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(summary(done.stderr),
                         r"^dlaunch: failed: rank 1 \(.*\) exited with code 1: RuntimeError: boom in the middle; not restarted")
        self.assertIn("  | RuntimeError: boom in the middle", done.stderr)

    def test_dlaunch_passes_the_causes_own_file_on_with_the_code(self):
        """As torchrun does if it is itself a worker."""
        own = self.path("own.json")
        error = '{"message": {"message": "E: x\\nsecond line", "extraInfo": {"more": 1}}, "kept": true}'
        done = self.run_job(*self.say(error), TORCHELASTIC_ERROR_FILE=own)
        self.assertEqual(done.returncode, 3)
        with open(own, encoding="utf-8") as file:
            self.assertEqual(json.load(file), {"message": {"message": "E: x\nsecond line", "extraInfo": {"more": 1}, "errorCode": 3}, "kept": True})
        self.run_job("sh", "-c", "exit 4", TORCHELASTIC_ERROR_FILE=own)
        with open(own, encoding="utf-8") as file:
            written = json.load(file)["message"]
        self.assertEqual(written["errorCode"], 4)
        self.assertIn("exited with code 4", written["message"])

    def test_the_traceback_stands_in_for_a_silent_stderr(self):
        done = self.run_job(*self.say('{"message": {"message": "E: x", "extraInfo": {"py_callstack": "Traceback\\n  here"}}}'))
        self.assertIn("  | Traceback\n  |   here\n", done.stderr)

    def test_what_is_no_error_file_is_ignored(self):
        for error in ("{", "[1]", '{"message": 5}', "x" * 5000):
            done = self.run_job(*self.say(error))
            self.assertEqual(done.returncode, 3)
            self.assertRegex(summary(done.stderr), r"exited with code 3; not restarted: --max-restarts is 0")
            self.assertIn(f"local rank 0: cannot read its error file: ", done.stderr)
            self.assertIn(f"it begins with '{error[:50]}", done.stderr)

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

    def test_nothing_stays_after_kill_9_of_the_keeper(self):
        job = subprocess.Popen([DLAUNCH, "sh", "-c", "echo > $TORCHELASTIC_ERROR_FILE; echo up; exec sleep 1000"], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "TMPDIR": self.tmp})
        self.assertEqual(job.stdout.readline(), b"up\n")
        os.kill(helpers_of(job)["keeper"], signal.SIGKILL)
        job.communicate(timeout=PATIENCE)
        self.assertEqual((job.returncode, os.listdir(self.tmp)), (1, []))

    def test_a_dlaunch_that_is_a_worker_tells_its_own_agent(self):
        done = self.run_job(DLAUNCH, *self.say('{"message": "inner words"}'))
        self.assertEqual(done.returncode, 3)
        self.assertRegex(summary(done.stderr),
                         r"^dlaunch: failed: rank 0 \(.*\) exited with code 3: rank 0 \(.*\) exited with code 3: inner words; ")

    def test_the_first_exception_is_the_cause_though_its_process_ends_last(self):
        done = self.run_job("--nproc-per-node=3", "sh", "-c",
                            """if [ $RANK = 1 ]; then
                                 printf '{"message": "the cause"}' > $TORCHELASTIC_ERROR_FILE
                                 trap '' TERM; echo > failed; while [ ! -e stopped ]; do sleep 0.005; done; exit 8
                               fi
                               [ $RANK = 2 ] && trap 'echo > stopped; exit 5' TERM && echo > ready
                               while [ ! -e failed ] || [ ! -e ready ]; do sleep 0.005; done
                               [ $RANK = 0 ] && exit 1
                               while :; do sleep 0.005; done""")
        self.assertEqual(done.returncode, 8, done.stderr)
        lines = done.stderr.splitlines()
        self.assertRegex(lines[-1], r"^dlaunch: failed: rank 1 \(.*\) exited with code 8: the cause; not restarted")
        self.assertRegex(lines[-5], r"^dlaunch: root cause: rank 1 \(.*\) exited with code 8: the cause, at \d\d:\d\d:\d\d$")
        self.assertEqual(lines[-4], "dlaunch: 2 other failures in this round:")
        self.assertRegex(lines[-3], r"^  .* later: rank 0 \(.*\) exited with code 1$")
        self.assertRegex(lines[-2], r"^  .* later: rank 2 \(.*\) exited with code 5, while it was being stopped$")

    def test_an_exception_is_the_cause_though_our_signal_ended_its_process(self):
        self.needs_torch()
        with open(self.path("train.py"), "w", encoding="utf-8") as file:
            file.write(SLOW_TO_DIE)
        done = self.run_job("--nproc-per-node=2", "train.py", PYTHON_EXEC=PYTHON)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(summary(done.stderr),
                         r"^dlaunch: failed: rank 1 \(.*\) had failed, and was stopped before it had exited: RuntimeError: the cause; no")
        self.assertRegex(done.stderr, r"(?m)^  .* later: rank 0 \(.*\) exited with code 7$")

    def test_a_full_temporary_folder_is_reported(self):
        done = self.run_job("true", TMPDIR="/proc")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^dlaunch: cannot make a directory in /proc: .*; free some space there, or set TMPDIR to another directory\n$")


class Reports(Failure):
    def test_of_a_failure(self):
        report = self.report("--nproc-per-node=2", "--max-restarts=1", "--rdzv-id=j", "sh", "-c",
                             "[ $RANK = 0 ] && exec sleep 1000; echo bad >&2; exit 4")
        cause = report["cause"]
        self.assertEqual((report["job"], report["failed"], report["restarts_used"], report["max_restarts"]), ("j", True, 1, 1))
        self.assertEqual((cause["kind"], cause["rank"], cause["local_rank"], cause["exit_code"], cause["stderr"], cause["round"]),
                         ("worker", 1, 1, 4, "bad", 1))
        self.assertLessEqual(report["began"], report["ended"])

    def test_of_a_signal_and_of_the_workers_output(self):
        self.assertEqual(self.report("sh", "-c", "kill -SEGV $$")["cause"]["signal"], 11)
        self.assertEqual(self.report(*self.say('{"message": "my words"}'))["cause"]["error"], "my words")

    def test_of_success(self):
        report = self.report("true")
        self.assertEqual((report["failed"], report["exit_code"]), (False, 0))
        self.assertNotIn("cause", report)

    def test_replaces_the_old_one_completely(self):
        self.report("sh", "-c", "exit 1")
        self.report("true")
        self.assertEqual(sorted(os.listdir(self.dir)), ["end.json", "tmp"])

    def test_a_path_that_cannot_be_written_is_reported_before_the_job(self):
        done = self.run_job("--report=/nowhere/x.json", "sh", "-c", "echo started")
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (1, "", "dlaunch: cannot write /nowhere/x.json: No such file or directory; choose another path\n"))


    def test_reports_the_host_the_rank_and_the_restarts(self):
        report = self.report("--nproc-per-node=2", "--max-restarts=2", "sh", "-c",
                             "[ $RANK = 1 ] && exec sleep 1000; exit $((4 + TORCHELASTIC_RESTART_COUNT))")
        self.assertEqual((report["version"], report["world_size"], report["exit_code"]), (1, 2, 6))
        self.assertEqual([(node["node_rank"], node["first_rank"], node["workers"]) for node in report["nodes"]], [(0, 0, 2)])
        self.assertEqual([(restart["number"], restart["cause"]["exit_code"]) for restart in report["restarts"]], [(1, 4), (2, 5)])
        self.assertTrue(0 <= report["restarts"][0]["after"] <= report["restarts"][1]["after"])
        self.assertTrue(report["began"] <= report["cause"]["time"] <= report["ended"])

    def test_what_is_no_plain_file_is_not_replaced(self):
        os.mkfifo(self.path("pipe"))
        for path, why in ((self.path("pipe"), "it is not a regular file"), (self.dir, "it is a directory")):
            done = self.run_job(f"--report={path}", "sh", "-c", "echo started")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", f"dlaunch: cannot write {path}: {why}; choose another path\n"))

    def test_a_link_stays_a_link(self):
        os.symlink("real.json", self.path("end.json"))
        with open(self.path("real.json"), "w", encoding="utf-8"):
            pass
        self.report("true")
        self.assertTrue(os.path.islink(self.path("end.json")))


class People(Failure):
    """What is printed at the end."""

    def test_many_victims_are_counted_and_few_are_shown(self):
        done = self.run_job("--nproc-per-node=100", "sh", "-c",
                            "trap '' TERM; echo $$ > up.$RANK; [ $RANK = 17 ] && { "
                            "while [ $(ls | grep -c '^up') != 100 ]; do sleep 0.01; done; : > goes; exit 9; }; "
                            "while [ ! -e goes ] || kill -0 $(cat up.17) 2> /dev/null; do sleep 0.01; done; echo 'RuntimeError: Connection closed by peer' >&2; exit 1")
        self.assertEqual(done.returncode, 9, done.stderr[-3000:])
        report = done.stderr[done.stderr.index("dlaunch: root cause"):].splitlines()
        self.assertRegex(report[0], r"^dlaunch: root cause: rank 17 \(.*\) exited with code 9, at ")
        self.assertEqual(report[1], "dlaunch: 99 other failures in this round:")
        for line in report[2:7]:
            self.assertRegex(line, r"^  .* later: rank \d+ \(.*\) exited with code 1(, while it was being stopped)?$")
        self.assertEqual(report[7], "  and 94 more; in all 99 exited with code 1")
        self.assertRegex(report[8], r"^dlaunch: failed: rank 17 .* exited with code 9; not restarted: --max-restarts is 0")
        self.assertEqual(len(report), 9)

    # Three ranks blame rank 3, which has printed the reason, and is stopped before it ends.
    ACCUSED = '''go=go.$TORCHELASTIC_RESTART_COUNT
                 if [ $RANK = 3 ]; then %s; : > $go; while :; do sleep 1000; done; fi
                 while [ ! -e $go ]; do sleep 0.01; done; echo 'RuntimeError: Connection closed by peer' >&2; exit 1'''
    SUSPICION = "rank 3, which was then stopped, had written: real error: bad index"

    def test_the_blamed_rank_is_reported_though_our_stop_ended_it(self):
        report = self.report("--nproc-per-node=4", "sh", "-c", self.ACCUSED % "echo 'real error: bad index' >&2")
        self.assertIn(report["cause"]["rank"], range(3))
        self.assertEqual((report["cause"]["hint"], report["exit_code"]), (self.SUSPICION, 1))
        self.assertNotIn(3, [other["rank"] for other in report["others"]])
        self.assertLessEqual(len(report["others"]), 2)

    def test_what_is_no_error_of_its_own_before_the_stop_is_not_blamed(self):
        for words in ("echo 'error: Connection reset by peer' >&2", "echo 'loading shard 7' >&2",
                      "trap 'echo fatal error: told to stop >&2; kill $!; exit 143' TERM; sleep 1000 & : > $go; wait"):
            report = self.report("--nproc-per-node=4", "sh", "-c", self.ACCUSED % words)
            self.assertNotIn("hint", report["cause"], words)
            os.unlink(self.path("go.0"))

    def test_the_blamed_rank_is_named_on_every_node_and_among_the_restarts(self):
        both = [DLAUNCH, "--nnodes=2", "--master-addr=127.0.0.1", f"--master-port={free_port()}", "--nproc-per-node=2", "--max-restarts=1"]
        script = self.ACCUSED % "echo 'real error: bad index' >&2"
        agents = [subprocess.Popen([*both, f"--node-rank={node}", f"--report={self.path(str(node))}", "sh", "-c", script], cwd=self.dir,
                                   stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for node in range(2)]
        for agent in agents:
            self.addCleanup(agent.communicate)
            self.addCleanup(agent.kill)
        for node, agent in enumerate(agents):
            last_line = summary(agent.communicate(timeout=PATIENCE)[1])
            self.assertIn(f" exited with code 1: {self.SUSPICION}; ", last_line)
            with open(self.path(str(node)), encoding="utf-8") as file:
                report = json.load(file)
            self.assertEqual(report["cause"]["hint"], self.SUSPICION)
            self.assertEqual(report["restarts"][0]["cause"]["hint"], self.SUSPICION)

    def test_the_restarts_before_are_listed(self):
        done = self.run_job("--max-restarts=7", "--restart-backoff=0", "sh", "-c", "exit $((10 + TORCHELASTIC_RESTART_COUNT))")
        lines = done.stderr.splitlines()
        at = lines.index("dlaunch: earlier restarts:")
        self.assertEqual(len(lines) - at, 7)
        for line, number in zip(lines[at + 1:-1], range(3, 8)):  # the last five
            self.assertRegex(line, rf"^  {number}, after .*: rank 0 \(.*\) exited with code {9 + number}$")
        self.assertRegex(lines[-1], r"exited with code 17; 7 of 7 restarts were used$")

    def test_garbage_drives_no_terminal_and_breaks_no_json(self):
        with open(self.path("garbage"), "wb") as file:
            file.write(b"\x1b[2J\x1b]0;title\x07" + bytes(range(256)) + b"\nplain\n\xff\xfe" + b"\x00" * 100)
        done = subprocess.run([DLAUNCH, f"--report={self.path('end.json')}", "sh", "-c",
                               "cat garbage > $TORCHELASTIC_ERROR_FILE; cat garbage >&2; exit 3"], stdin=subprocess.DEVNULL,
                              capture_output=True, cwd=self.dir, env={**os.environ, "TMPDIR": self.tmp}, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 3)
        own = done.stderr[done.stderr.index(b"dlaunch: "):].decode("utf-8")  # whatever it quotes is text
        self.assertIn("\n  | plain\n", own)
        self.assertFalse([c for c in own if (ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160], own)
        with open(self.path("end.json"), encoding="utf-8") as file:
            self.assertIn("plain", json.load(file)["cause"]["stderr"])

    def test_the_log_file_is_named_and_the_error_file_kept_beside_it(self):
        done = self.run_job(f"--log-dir={self.path('logs')}", "-r", "3", *self.say('{"message": "E: x"}'))
        named = re.search(r"(?m)^dlaunch: the output of rank 0 is in (\S+) on host \S+$", done.stderr)
        self.assertTrue(named, done.stderr)
        self.assertTrue(os.path.exists(named.group(1)))
        with open(os.path.join(os.path.dirname(named.group(1)), "error.json"), encoding="utf-8") as file:
            self.assertEqual(file.read(), '{"message": "E: x"}')

    def test_the_path_of_the_kept_error_file_is_reported(self):
        logs, own = self.path("logs"), self.path("own.json")
        error = self.say('{"message": {"message": "E: x", "extraInfo": {}}}')
        beside = rf"{logs}/standalone-\w+/attempt_0/0/error\.json"
        for options in (["-r3"], ["-r", "1:3"]):  # with a log file of its own, and without
            report = self.report(f"--log-dir={logs}", *options, *error)
            self.assertRegex(report["cause"]["error_file"], f"^{beside}$")
            self.assertTrue(os.path.exists(report["cause"]["error_file"]))
        self.assertRegex(self.run_job(f"--log-dir={logs}", "-r3", *error).stderr, rf"\ndlaunch: the error file of rank 0 is {beside} on host ")
        self.assertEqual(self.report(*error, TORCHELASTIC_ERROR_FILE=own)["cause"]["error_file"], own)
        self.assertTrue(os.path.exists(own))
        self.assertNotIn("error_file", self.report(*error)["cause"])
        self.assertNotIn("error_file", self.report(f"--log-dir={logs}", "-r3", "false", TORCHELASTIC_ERROR_FILE=own)["cause"])

    def test_the_time_of_the_failure_is_always_reported(self):
        lines = self.run_job("sh", "-c", "exit 3").stderr.splitlines()
        self.assertRegex("\n".join(lines), r"^dlaunch: failed: rank 0 .* exited with code 3; not restarted: .*; it failed at \d\d:\d\d:\d\d$")

    def test_a_full_shared_memory_is_reported(self):
        fill = ("import mmap, os; f = os.open('/dev/shm/x', os.O_RDWR | os.O_CREAT); os.ftruncate(f, 8 << 20); "
                "m = mmap.mmap(f, 8 << 20); m.write(bytes(8 << 20))")
        inside = f"mount -t tmpfs -o size=1M none /dev/shm || exit 77; exec {DLAUNCH} {PYTHON} -c \"{fill}\""
        done = subprocess.run(["unshare", "-m", "sh", "-c", inside], capture_output=True, text=True, timeout=PATIENCE, check=False,
                              env={**os.environ, "TMPDIR": self.tmp})
        if done.returncode in (1, 77):
            self.skipTest(f"no /dev/shm of our own can be mounted here: {done.stderr.strip()}")
        self.assertEqual(done.returncode, 135, done.stderr)
        self.assertRegex(done.stderr, r"was killed by signal 7 \(SIGBUS\).*: /dev/shm \(1 MiB\) is full; not restarted")


class OutOfMemory(Failure):
    """A real control group with a limit, and a real kill."""

    LIMIT = 512 << 20  # room for dlaunch, a sanitizer's shadow memory with it, and far less than the hungry program takes

    def setUp(self):
        super().setUp()
        self.group = ControlGroup(self, memory=self.LIMIT)

    def test_a_job_in_a_group_that_is_too_small(self):
        job = subprocess.run([*self.group.inside(), DLAUNCH, "--nproc-per-node=2", "sh",
                              "-c", "[ $RANK = 0 ] && exec sleep 1000; exec \"$@\"", "sh", *HUNGRY],
                             capture_output=True, text=True, timeout=PATIENCE, check=False, env={**os.environ, "TMPDIR": self.tmp})
        self.assertEqual(job.returncode, 137, job.stderr)
        self.assertRegex(summary(job.stderr),
                         r"rank 1 \(.*\) was killed by signal 9 \(SIGKILL\): the kernel's out-of-memory killer "
                         rf"\(limit 512 MiB of cgroup \S*/{self.group.name}\); not restarted")
        self.assertRegex(remedy(job.stderr), r"^raise the memory limit of 512 MiB, .*: rank 1 held up to [45]\d\d(\.\d)? MiB, rank 0 holds \d.* [KM]iB$")

    def test_a_child_of_a_worker_is_killed(self):
        job = subprocess.run([*self.group.inside(), DLAUNCH, "sh", "-c",
                              "\"$@\"; exit 3", "sh", *HUNGRY],
                             capture_output=True, text=True, timeout=PATIENCE, check=False, env={**os.environ, "TMPDIR": self.tmp})
        self.assertEqual(job.returncode, 3, job.stderr)
        self.assertRegex(summary(job.stderr), r"exited with code 3: the kernel's out-of-memory killer killed a process of this job")

    @staticmethod
    def kills_of_the_kernel():
        """How many processes of this machine it has ended for lack of memory; None: it does not count them."""
        with open("/proc/vmstat", encoding="ascii") as vmstat:
            counts = dict(line.split() for line in vmstat)
        return counts.get("oom_kill")

    def test_a_kill_by_hand_is_not_blamed_on_the_kernel(self):
        while True:
            before = self.kills_of_the_kernel()
            done = self.run_job("sh", "-c", "kill -KILL $$")
            if self.kills_of_the_kernel() == before:  # none of another test's meanwhile: dlaunch cannot exclude that it was this one
                break
        self.assertEqual(done.returncode, 137)
        counted = before is not None
        self.assertIn("(SIGKILL): by another process (kill -9, a scheduler, an administrator); memory had not run out; not restarted" if counted
                      else "(SIGKILL, killed; often by the kernel when memory ran out); not restarted", done.stderr)


class AcrossHosts(Failure):
    def setUp(self):
        super().setUp()
        self.hosts = Hosts(self, 4)

    def run_on(self, nodes, script, *options):
        """Each host's exit code, and dlaunch's lines there."""
        jobs = [subprocess.Popen([*self.hosts.on(i), DLAUNCH, f"--nnodes={nodes}", f"--node-rank={i}", f"--master-addr={self.hosts.addresses[0]}",
                                  "--master-port=29500", f"--local-addr=host{i}", *options, "sh", "-c", script],
                                 cwd=self.dir, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                 env={**os.environ, "TMPDIR": self.tmp}) for i in range(nodes)]
        for job in jobs:
            self.addCleanup(job.kill)
        said = [job.communicate(timeout=PATIENCE)[1].splitlines() for job in jobs]
        # On a busy machine a node may be waited for.
        return [job.returncode for job in jobs], [[line for line in lines if not line.startswith("dlaunch: waiting for ")] for lines in said]

    def test_the_first_exception_is_the_cause_on_both_though_a_victim_elsewhere_ended_first(self):
        codes, said = self.run_on(
            2, """if [ $RANK = 3 ]; then
                 trap '' TERM; printf '{"message": "E: the cause"}' > $TORCHELASTIC_ERROR_FILE; : > failed
                 while [ ! -e victim ]; do sleep 0.005; done; sleep 0.05; exit 8
               fi
               while [ ! -e failed ]; do sleep 0.005; done
               [ $RANK = 0 ] && { sleep 0.15; : > victim; exit 5; }
               exec sleep 1000""", "--nproc-per-node=2")
        self.assertEqual(codes, [8, 8], said)
        for lines in said:
            self.assertRegex(lines[-1], r"^dlaunch: failed: rank 3 \(local rank 1, node 1, host host1, pid \d+\) exited with code 8: E: the cause; no")
            self.assertRegex("\n".join(lines), r"(?m)^  .* later: rank 0 \(local rank 0, node 0, host host0, .*\) exited with code 5$")

    def test_an_uninvolved_node_prints_one_line(self):
        codes, said = self.run_on(2, ": > up.$RANK; [ $RANK = 1 ] && exec sleep 1000; "
                                   "while [ ! -e up.1 ]; do sleep 0.005; done; echo words >&2; exit 6")
        self.assertEqual(codes, [6, 6], said)
        self.assertIn("  | words", said[0])
        self.assertEqual(len(said[1]), 1, said[1])
        self.assertRegex(said[1][0], r"^dlaunch: failed: rank 0 \(local rank 0, node 0, host host0, pid \d+\) exited with code 6; no")

    def test_the_rank_that_raises_is_named_before_31_whose_connections_broke(self):
        codes, said = self.run_on(
            4, """trap '' TERM; : > up.$RANK
               if [ $RANK = 21 ]; then
                 while [ $(ls | grep -c '^up') != 32 ]; do sleep 0.01; done
                 seq -f 'line %g of the cause' 25 >&2; printf '{"message": "E: the cause"}' > $TORCHELASTIC_ERROR_FILE; : > failed; exit 1
               fi
               while [ ! -e failed ]; do sleep 0.002; done
               echo 'RuntimeError: Connection closed by peer' >&2; exit 1""", "--nproc-per-node=8")
        self.assertEqual(codes, [1] * 4, said)
        for node, lines in enumerate(said):
            self.assertRegex(lines[-1], r"^dlaunch: failed: rank 21 \(local rank 5, node 2, host host2, pid \d+\) exited with code 1: E: the cause; no")
            text = "\n".join(lines)
            if node in (0, 2):  # the leader, and the node of the cause
                self.assertEqual(text.count("dlaunch: root cause: rank 21 "), 1, text)
                self.assertEqual(re.findall(r"(?m)^  \| (line \d+ of the cause)$", text), [f"line {i} of the cause" for i in range(6, 26)], text)
                self.assertIn("\ndlaunch: 31 other failures in this round:\n", text)
                self.assertIn("; in all 31 exited with code 1\n", text)
            else:
                self.assertEqual([line for line in lines[:-1] if line != "RuntimeError: Connection closed by peer"], [], text)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""dlaunch as a person runs it: real processes, real signals, real kills, real separate hosts.

    DLAUNCH_BIN_DIR=build/bin launch_test.py [Class.test ...]

Nothing here passes by waiting for a time: every wait is for an event, and has a deadline.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

BIN = os.path.abspath(os.environ["DLAUNCH_BIN_DIR"])
DLAUNCH = os.path.join(BIN, "dlaunch")
PATIENCE = 60  # seconds until a wait for an event is a failure


def environment():
    """As from a shell that no launcher has touched."""
    own = ("TORCHELASTIC_", "DLAUNCH_", "MASTER_")
    return {key: value for key, value in os.environ.items()
            if not key.startswith(own) and key not in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "OMP_NUM_THREADS")}


def alive(pid):
    """Whether the process exists and is no zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {PATIENCE} s: {what}")
        time.sleep(0.005)


class Launch(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="dlaunch_launch_test.")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def run_dlaunch(self, *arguments, **variables):
        return subprocess.run([DLAUNCH, *arguments], cwd=self.dir, env={**environment(), **variables}, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False)

    def start(self, *arguments, prefix=()):
        process = subprocess.Popen([*prefix, DLAUNCH, *arguments], cwd=self.dir, env=environment(), text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.finish, process)
        return process

    @staticmethod
    def finish(process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def pids(self, count):
        """The numbers that workers wrote into files named pid.*, once there are `count` of them."""
        def numbers():
            found = []
            for name in os.listdir(self.dir):
                if name.startswith("pid.") and not name.endswith(".tmp"):
                    with open(os.path.join(self.dir, name), encoding="utf-8") as file:
                        text = file.read().strip()
                    if text:
                        found.append(int(text))
            return found
        wait_until(lambda: len(numbers()) >= count, f"{count} processes have written their pids")
        return numbers()


# A worker that writes its pid and those of a child and of a daemon in a session of its own, and then stays.
FAMILY = """
echo $$ > pid.$RANK.tmp && mv pid.$RANK.tmp pid.$RANK
sleep 1000 & echo $! > pid.$RANK.child
setsid sh -c 'echo $$ > pid.'$RANK'.daemon; trap "" TERM HUP; while :; do sleep 1000; done' &
wait
"""


class Results(Launch):
    def test_zero_only_when_all_return_zero(self):
        self.assertEqual(self.run_dlaunch("--nproc-per-node=3", "true").returncode, 0)
        self.assertEqual(self.run_dlaunch("--nproc-per-node=3", "sh", "-c", "exit $((RANK == 2 ? 9 : 0))").returncode, 9)

    def test_a_failed_worker_is_named_with_its_last_words(self):
        done = self.run_dlaunch("--nproc-per-node=2", "sh", "-c", "[ $RANK = 0 ] && exec sleep 1000; echo boom >&2; exit 3")
        self.assertEqual(done.returncode, 3)
        last = done.stderr.splitlines()[-1]
        self.assertRegex(last, r"^dlaunch: failed: rank 1 \(local rank 1, node 0, host \S+, pid \d+\) exited with code 3; no restarts")
        self.assertIn("  | boom", done.stderr)

    def test_a_signal_is_said_in_words(self):
        done = self.run_dlaunch("sh", "-c", "kill -SEGV $$")
        self.assertEqual(done.returncode, 139)
        self.assertIn("was killed by signal 11 (SIGSEGV, segmentation fault)", done.stderr)

    def test_a_restart_begins_all_workers_anew(self):
        done = self.run_dlaunch("--nproc-per-node=2", "--max-restarts=2", "sh", "-c",
                                "echo $RANK of round $TORCHELASTIC_RESTART_COUNT; "
                                ": > seen.$RANK.$TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 2 ] && exit 0; "
                                "[ $RANK = 0 ] && exec sleep 1000; "
                                "while [ ! -e seen.0.$TORCHELASTIC_RESTART_COUNT ]; do sleep 0.005; done; exit 5")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.split("\n")[:-1]),
                         sorted(f"{rank} of round {count}" for rank in range(2) for count in range(3)))
        self.assertIn("restart 2 of 2", done.stderr)

    def test_many_workers_start_and_end(self):
        done = self.run_dlaunch("--nproc-per-node=300", "sh", "-c", "echo $RANK")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(map(int, done.stdout.split())), list(range(300)))

    def test_restarts_are_counted(self):
        done = self.run_dlaunch("--max-restarts=1", "sh", "-c", "exit 4")
        self.assertEqual(done.returncode, 4)
        self.assertIn("1 of 1 restarts were used", done.stderr.splitlines()[-1])


class Output(Launch):
    def test_lines_of_different_ranks_never_mix(self):
        script = 'i=0; while [ $i -lt 300 ]; do printf "%s" "$RANK-"; printf "%s\\n" "$RANK$RANK$RANK-$RANK"; i=$((i+1)); done'
        done = self.run_dlaunch("--nproc-per-node=4", "sh", "-c", script)
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 1200)
        self.assertEqual(set(lines), {f"{rank}-{rank}{rank}{rank}-{rank}" for rank in range(4)})

    def test_nothing_is_lost_at_the_end_and_a_last_line_without_end_gets_one(self):
        done = self.run_dlaunch("--nproc-per-node=2", "sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x; printf end")
        self.assertEqual(done.stdout, ("x" * 300000 + "end\n") * 2)

    def test_a_reader_that_goes_away_does_not_stop_the_job(self):
        done = subprocess.run(["sh", "-c", f"{DLAUNCH} --nproc-per-node=2 sh -c 'yes | head -n 100000; echo done > done.$RANK' | head -n 1"],
                              cwd=self.dir, env=environment(), timeout=PATIENCE, capture_output=True, check=False)
        self.assertEqual(done.stdout, b"y\n")
        wait_until(lambda: os.path.exists(os.path.join(self.dir, "done.0")) and os.path.exists(os.path.join(self.dir, "done.1")),
                   "both workers came to their end")


class Signals(Launch):
    def test_sigterm_is_passed_on_and_decides_the_exit_code(self):
        job = self.start("--nproc-per-node=2", "sh", "-c", "trap 'echo got it > term.$RANK; exit 0' TERM; " + FAMILY)
        self.pids(6)
        job.send_signal(signal.SIGTERM)
        wait_until(lambda: os.path.exists(os.path.join(self.dir, "term.1")), "worker 1 got the signal")
        job.send_signal(signal.SIGTERM)  # the daemons ignore it: do not wait for the grace time
        _, err = job.communicate(timeout=PATIENCE)
        self.assertEqual(job.returncode, 143, err)
        self.assertRegex(err.splitlines()[-1], "^dlaunch: stopped: node 0 .* was told to stop by SIGTERM$")

    def test_who_ignores_the_signal_is_killed_after_the_grace_time(self):
        job = self.start("--stop-timeout=0.2", "sh", "-c", "trap '' TERM INT; echo $$ > pid.0; while :; do sleep 1000; done")
        (worker,) = self.pids(1)
        job.send_signal(signal.SIGINT)
        job.communicate(timeout=PATIENCE)
        self.assertEqual(job.returncode, 130)
        self.assertFalse(alive(worker))

    def test_a_user_signal_passes_through_and_the_job_goes_on(self):
        job = self.start("--nproc-per-node=2", "sh", "-c", "trap 'exit 0' USR1; echo $$ > pid.$RANK; while :; do sleep 0.01; done")
        self.pids(2)
        job.send_signal(signal.SIGUSR1)
        _, err = job.communicate(timeout=PATIENCE)
        self.assertEqual(job.returncode, 0, err)


class Orphans(Launch):
    def nothing_remains(self, pids):
        wait_until(lambda: not any(alive(pid) for pid in pids), f"none of {pids} is alive")

    def test_none_after_kill_9_of_dlaunch(self):
        for _ in range(5):
            job = self.start("--nproc-per-node=2", "sh", "-c", FAMILY)
            pids = self.pids(6)
            job.kill()
            self.nothing_remains(pids)
            for name in os.listdir(self.dir):
                os.unlink(os.path.join(self.dir, name))

    def test_none_after_kill_9_of_the_keeper(self):
        job = self.start("--nproc-per-node=2", "sh", "-c", FAMILY)
        pids = self.pids(6)
        with open(f"/proc/{job.pid}/task/{job.pid}/children", encoding="utf-8") as children:
            (keeper,) = children.read().split()
        os.kill(int(keeper), signal.SIGKILL)
        _, err = job.communicate(timeout=PATIENCE)
        self.assertEqual(job.returncode, 1)
        self.assertIn("the keeper process", err)
        self.nothing_remains(pids)

    def test_none_after_a_worker_failed(self):
        done = self.run_dlaunch("--nproc-per-node=2", "--stop-timeout=0.2", "sh", "-c",
                                "if [ $RANK = 1 ]; then sleep 1000 & echo $! > pid.1; exit 3; fi; " + FAMILY)
        self.assertEqual(done.returncode, 3)
        self.nothing_remains(self.pids(1))

    def test_a_daemon_is_stopped_when_the_job_is_done(self):
        done = self.run_dlaunch("sh", "-c", "setsid sleep 1000 & echo $! > pid.0; exit 0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.nothing_remains(self.pids(1))


class Mistakes(Launch):
    def expect(self, code, text, *arguments):
        done = self.run_dlaunch(*arguments)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(text, done.stderr)

    def test_each_is_answered_in_one_line(self):
        with open(os.path.join(self.dir, "plain"), "w", encoding="utf-8"):
            pass
        self.expect(2, "no program given")
        self.expect(2, "--nproc-per-node: 0 is out of range", "--nproc-per-node=0", "true")
        self.expect(2, "'many' is not a number", "--nproc-per-node=many", "true")
        self.expect(2, "--max-restarts: 'x' is not a number", "--max-restarts", "x", "true")
        self.expect(2, "--node-rank=2 is outside --nnodes=2", "--nnodes=2", "--node-rank=2", "true")
        self.expect(2, "did you mean --nproc-per-node?", "--nproc-per-nod=2", "true")
        self.expect(2, "--master-port: 70000 is out of range", "--master-port=70000", "true")
        self.expect(1, "No such file or directory", "./missing")
        self.expect(1, "it may not be executed; chmod +x ./plain", "./plain")
        self.expect(1, "no such program on PATH", "no-such-program-anywhere")
        self.expect(1, "missing.py", "missing.py")

    def test_a_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            self.expect(1, "in use", f"--master-port={port}", "true")

    def test_a_master_that_never_answers_is_named(self):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))  # bound, not listening: refuses for as long as we hold it
            port = closed.getsockname()[1]
            self.expect(1, f"waited 300 ms for node 0 at 127.0.0.1:{port}, which never answered: connection refused",
                        "--nnodes=2", "--node-rank=1", f"--master-port={port}", "--join-timeout=0.3", "true")

    def test_nodes_that_never_come_are_named(self):
        self.expect(1, "for nodes 1 and 2 of 3", "--nnodes=3", "--node-rank=0", f"--master-port={free_port()}",
                    "--join-timeout=0.3", "true")

    def test_help_and_version(self):
        self.assertIn("Usage: dlaunch [options] program", self.run_dlaunch("--help").stdout)
        self.assertRegex(self.run_dlaunch("--version").stdout, r"^dlaunch \d+\.\d+\.\d+\n$")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Python(Launch):
    def test_a_script_is_started_with_python_unbuffered_unless_told_otherwise(self):
        with open(os.path.join(self.dir, "job.py"), "w", encoding="utf-8") as script:
            script.write("#!/bin/sh\nimport = 0\n")
        with open(os.path.join(self.dir, "fake"), "w", encoding="utf-8") as python:
            python.write('#!/bin/sh\necho "$@"\n')
        os.chmod(os.path.join(self.dir, "fake"), 0o755)
        os.chmod(os.path.join(self.dir, "job.py"), 0o755)
        self.assertEqual(self.run_dlaunch("job.py", "--epochs=2", PYTHON_EXEC="./fake").stdout, "-u job.py --epochs=2\n")
        self.assertEqual(self.run_dlaunch("-m", "pkg.mod", "x", PYTHON_EXEC="./fake").stdout, "-u -m pkg.mod x\n")
        self.assertEqual(self.run_dlaunch("--no-python", "./job.py").returncode, 127)


class TwoHosts(Launch):
    """Two network namespaces with a cable between them: two hosts."""

    def setUp(self):
        super().setUp()
        tag = f"dl{os.getpid() % 100000}"
        self.hosts = [f"{tag}a", f"{tag}b"]
        made = subprocess.run(["sh", "-c", " && ".join([
            *(f"ip netns add {host}" for host in self.hosts),
            f"ip link add {tag}v0 netns {self.hosts[0]} type veth peer name {tag}v1 netns {self.hosts[1]}",
            *(f"ip -n {host} addr add 10.213.7.{i + 1}/24 dev {tag}v{i} && ip -n {host} link set {tag}v{i} up && ip -n {host} link set lo up"
              for i, host in enumerate(self.hosts))])], capture_output=True, text=True, check=False)
        self.addCleanup(lambda: [subprocess.run(["ip", "netns", "del", host], capture_output=True, check=False) for host in self.hosts])
        if made.returncode != 0:
            self.skipTest(f"network namespaces cannot be made here: {made.stderr.strip()}")

    def on(self, i, *arguments):
        return self.start("--nnodes=2", f"--node-rank={i}", "--master-addr=10.213.7.1", "--master-port=29500", *arguments,
                          prefix=("ip", "netns", "exec", self.hosts[i]))

    def test_one_job_over_two_hosts(self):
        second = self.on(1, "--nproc-per-node=1", os.path.join(BIN, "rank_sum"))
        first = self.on(0, "--nproc-per-node=2", os.path.join(BIN, "rank_sum"))
        out, err = first.communicate(timeout=PATIENCE)
        more, more_err = second.communicate(timeout=PATIENCE)
        self.assertEqual((first.returncode, second.returncode), (0, 0), err + more_err)
        self.assertEqual(sorted(re.findall(r"rank (\d) of 3", out + more)), ["0", "1", "2"])
        self.assertEqual(len(re.findall(r"sum of ranks = 3", out + more)), 3)

    def test_a_failure_on_one_host_restarts_both_and_codes_agree(self):
        script = ("echo > seen.$RANK.$TORCHELASTIC_RESTART_COUNT; [ $RANK = 0 ] && exec sleep 1000; "
                  "while [ ! -e seen.0.$TORCHELASTIC_RESTART_COUNT ]; do sleep 0.005; done; exit 6")
        jobs = [self.on(i, "--max-restarts=1", "sh", "-c", script) for i in (0, 1)]
        errors = [job.communicate(timeout=PATIENCE)[1] for job in jobs]
        self.assertEqual([job.returncode for job in jobs], [6, 6], errors)
        for error in errors:
            self.assertRegex(error.splitlines()[-1], r"failed: rank 1 \(local rank 0, node 1, .*exited with code 6; 1 of 1 restarts were used")
        self.assertTrue(os.path.exists(os.path.join(self.dir, "seen.0.1")))

    def test_kill_9_of_one_agent_ends_the_other_and_leaves_nothing(self):
        jobs = [self.on(i, "sh", "-c", FAMILY) for i in (0, 1)]
        pids = self.pids(6)
        jobs[1].kill()
        _, err = jobs[0].communicate(timeout=PATIENCE)
        self.assertEqual(jobs[0].returncode, 1)
        self.assertIn("node 1 (host", err.splitlines()[-1])
        wait_until(lambda: not any(alive(pid) for pid in pids), f"none of {pids} is alive")


if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=1)
    skipped_all = program.result.skipped and len(program.result.skipped) == program.result.testsRun
    sys.exit(77 if skipped_all else not program.result.wasSuccessful())

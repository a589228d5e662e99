#!/usr/bin/env python3
"""dlaunch as a person runs it: real processes, real signals, real kills, real separate hosts.

    DLAUNCH_BIN_DIR=build/bin launch_test.py [Class.test ...]

Nothing here passes by waiting for a time: every wait is for an event, and has a deadline.
"""

import ctypes
import json
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

from common import BIN, DLAUNCH, PATIENCE, TORCH_PYTHON, alive, environment, free_port, helpers_of, torchrun, wait_until
from hosts import Hosts


class Launch(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="dlaunch_launch_test.")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def run_dlaunch(self, *arguments, **variables):
        return subprocess.run([DLAUNCH, *arguments], cwd=self.dir, env={**environment(), **variables}, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False)

    def start(self, *arguments, prefix=(), **variables):
        process = subprocess.Popen([*prefix, DLAUNCH, *arguments], cwd=self.dir, env={**environment(), **variables}, text=True,
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
        self.assertRegex(last, r"^dlaunch: failed: rank 1 \(local rank 1, node 0, host \S+, pid \d+\) exited with code 3; not restarted")
        self.assertIn("  | boom", done.stderr)

    def test_a_signal_is_reported_by_name(self):
        done = self.run_dlaunch("sh", "-c", "kill -SEGV $$")
        self.assertEqual(done.returncode, 139)
        self.assertIn("was killed by signal 11 (SIGSEGV, segmentation fault)", done.stderr)

    def test_a_restart_restarts_all_workers(self):
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

    def test_fencing_tokens_grow_with_restarts_and_new_dlaunch_processes(self):
        worker = 'echo $DLAUNCH_FENCING_TOKEN >> tokens.$TORCHELASTIC_RESTART_COUNT; exit $((TORCHELASTIC_RESTART_COUNT < 1))'
        worlds = []
        for _ in range(3):
            # A round that fails is stopped as soon as one worker has: the others write first.
            run = self.run_dlaunch("--nproc-per-node=2", "--max-restarts=1", "sh", "-c", "trap '' TERM; " + worker)
            self.assertEqual(run.returncode, 0, run.stderr)
            for restarts in range(2):
                name = os.path.join(self.dir, f"tokens.{restarts}")
                with open(name, encoding="utf-8") as file:
                    worlds.append([int(token) for token in file.read().split()])
                os.remove(name)
        self.assertTrue(all(1 <= len(world) <= 2 and len(set(world)) == 1 for world in worlds), worlds)
        tokens = [world[0] for world in worlds]
        self.assertEqual(sorted(set(tokens)), tokens)

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

    def test_output_that_cannot_be_written_is_reported_once_and_a_failure(self):
        for workers, program, code in ((1, "echo hi", 1), (2, "echo hi", 1), (2, "for i in 1 2 3; do echo hi; done; exit 7", 7)):
            with self.subTest(workers=workers, program=program), open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([DLAUNCH, f"--nproc-per-node={workers}", "sh", "-c", program], cwd=self.dir, env=environment(), text=True,
                                      stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertEqual(done.stderr.count("cannot write to standard output: No space left on device"), 1, done.stderr)
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([DLAUNCH, "true"], cwd=self.dir, env=environment(), stdin=subprocess.DEVNULL, stdout=full,
                                  stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, b""))

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
        job.send_signal(signal.SIGTERM)  # the signal is repeated
        job.send_signal(signal.SIGINT)  # the daemons ignore it: do not wait for the grace time
        _, err = job.communicate(timeout=PATIENCE)
        self.assertEqual(job.returncode, 143, err)
        self.assertRegex(err.splitlines()[-1], "^dlaunch: stopped: node 0 .* was stopped by SIGTERM$")

    def test_processes_that_ignore_the_signal_are_killed_after_the_grace_time(self):
        job = self.start("--stop-timeout=1000,INT@0.2", "sh", "-c", "trap '' TERM INT; echo $$ > pid.0; while :; do sleep 1000; done")
        (worker,) = self.pids(1)
        job.send_signal(signal.SIGINT)
        job.communicate(timeout=PATIENCE)
        self.assertEqual(job.returncode, 130)
        self.assertFalse(alive(worker))

    def test_without_a_grace_time_no_worker_gets_the_signal(self):
        trap = "trap 'echo trapped > trapped' TERM INT; "
        for signo, times in ((signal.SIGTERM, "0"), (signal.SIGINT, "30,INT@0")):
            ended, err = self.end_by(signo, 1, f"--stop-timeout={times}", "sh", "-c", trap + "echo $$ > pid.0; while :; do sleep 0.01; done")
            self.assertEqual(ended, 128 + signo, err)
            self.assertIn(f"told to end by {signo.name}: killing the workers, which are given no time (--stop-timeout)", err)
        done = self.run_dlaunch("--nproc-per-node=2", "--stop-timeout=0", "--max-restarts=1", "sh", "-c",
                                trap + "[ $RANK = 1 ] && { until [ -e ready ]; do sleep 0.01; done; exit 3; }; echo > ready; while :; do sleep 0.01; done")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertFalse(os.path.exists(os.path.join(self.dir, "trapped")))

    def end_by(self, signo, workers, *arguments):
        """The exit code and output of a job that gets the signal once all its workers have written their pids."""
        job = self.start(*arguments)
        self.pids(workers)
        job.send_signal(signo)
        _, err = job.communicate(timeout=PATIENCE)
        for rank in range(workers):
            os.unlink(os.path.join(self.dir, f"pid.{rank}"))
        return job.returncode, err

    def test_notice_comes_before_the_end(self):
        for exits, code in (("exit 0", 0), ("exit 9", 143)):
            ended, err = self.end_by(signal.SIGTERM, 1, "--preempt-signal=SIGUSR1@50", "--max-restarts=3", "sh", "-c",
                                     f"trap 'echo saved > saved; {exits}' USR1; echo $$ > pid.0; while :; do sleep 0.01; done")
            self.assertEqual(ended, code, err)
            self.assertTrue(os.path.exists(os.path.join(self.dir, "saved")))
            self.assertIn("giving the workers notice by SIGUSR1; SIGTERM follows in 50 s", err)
            os.unlink(os.path.join(self.dir, "saved"))

    def test_an_end_that_all_survive_with_0_may_be_a_good_one(self):
        for exits, code in ((("exit 0", "exit 0"), 0), (("exit 0", "exit 143"), 143), (("exit 0", "exit 9"), 143)):
            ended, err = self.end_by(signal.SIGTERM, 2, "--preempt-ok", "--nproc-per-node=2", "sh", "-c",
                                     f"trap '[ $RANK = 0 ] && {exits[0]}; {exits[1]}' TERM; echo $$ > pid.$RANK; while :; do sleep 0.01; done")
            self.assertEqual(ended, code, err)
            good = "; all workers here returned 0 \\(--preempt-ok\\)" if code == 0 else ""
            self.assertRegex(err.splitlines()[-1], f"^dlaunch: stopped: node 0 .* was stopped by SIGTERM{good}$")
        ended, err = self.end_by(signal.SIGINT, 1, "--preempt-ok", "sh", "-c", "trap 'exit 0' INT; echo $$ > pid.0; while :; do sleep 0.01; done")
        self.assertEqual(ended, 130, err)

    def test_a_user_signal_passes_through_and_the_job_goes_on(self):
        ended, err = self.end_by(signal.SIGUSR1, 2, "--nproc-per-node=2", "sh", "-c",
                                 "trap 'exit 0' USR1; echo $$ > pid.$RANK; while :; do sleep 0.01; done")
        self.assertEqual(ended, 0, err)


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
        os.kill(helpers_of(job)["keeper"], signal.SIGKILL)
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
        with open(os.path.join(self.dir, "script"), "w", encoding="utf-8") as script:
            script.write("#!/bin/sh\nexit 0\n")
        shutil.copyfile("/bin/true", os.path.join(self.dir, "compiled"))  # without its mode
        os.mkdir(os.path.join(self.dir, "folder"))
        self.expect(2, "no program given")
        self.expect(2, "--nproc-per-node: 0 is out of range", "--nproc-per-node=0", "true")
        self.expect(2, "'many' is not a number", "--nproc-per-node=many", "true")
        self.expect(2, "--max-restarts: 'x' is not a number", "--max-restarts", "x", "true")
        self.expect(2, "--node-rank=2 is outside --nnodes=2", "--nnodes=2", "--node-rank=2", "true")
        self.expect(2, "did you mean --nproc-per-node?", "--nproc-per-nod=2", "true")
        self.expect(2, "--master-port: 70000 is out of range", "--master-port=70000", "true")
        self.expect(1, "No such file or directory", "./missing")
        self.expect(1, "it may not be executed; chmod +x ./script", "./script")
        self.expect(1, "it may not be executed; chmod +x compiled, and start ./compiled", "compiled")
        self.expect(1, "cannot start 'folder': it is a directory", "folder")
        self.expect(1, "no such program on PATH", "no-such-program-anywhere")
        self.expect(1, "cannot make a log directory in script: Not a directory; choose another --log-dir", "--log-dir=script", "true")
        self.expect(1, "cannot make a log directory in script/x: Not a directory", "--log-dir=script/x", "true")
        for name, first_line, answer in (
                ("gone", "#! /no/such/interpreter -x", "its interpreter /no/such/interpreter: No such file or directory; correct its first line"),
                ("windows", "#!/bin/sh\r", "its interpreter /bin/sh: No such file or directory; it has Windows line ends")):
            with open(os.path.join(self.dir, name), "w", encoding="utf-8", newline="") as script:
                script.write(first_line + "\nexit 0\n")
            os.chmod(os.path.join(self.dir, name), 0o755)
            self.expect(1, f"cannot start './{name}': {answer}", f"./{name}")
        self.expect(1, "missing.py", "missing.py")

    def test_each_wrong_address_has_its_own_answer(self):
        for arguments, answer in (
                (("--local-addr=10.255.255.1",), r"cannot listen on 10\.255\.255\.1:0: not an address of this machine; --local-addr must name an address"),
                (("--master-addr=10.255.255.1",), r"--master-addr must name an address of this machine"),
                (("--rdzv-endpoint=10.255.255.1:29500",), r"--rdzv-endpoint must name an address of this machine")):
            with self.subTest(arguments=arguments):
                done = self.run_dlaunch(*arguments, "true")
                self.assertEqual(done.returncode, 1)
                self.assertRegex(done.stderr, answer)

    def test_an_unknown_name_is_reported(self):
        name = "no-such-host.invalid"
        no_names = f"cannot listen on {name}:\\d+: the name service does not answer; this machine cannot look that name up; give its address"
        done = self.run_dlaunch(f"--master-addr={name}", "true")
        self.assertRegex(done.stderr, f"{no_names} with --master-addr|cannot listen on {name}:0: name not known; check its spelling, "
                                      "/etc/hosts and DNS, or give this machine's address with --master-addr")
        done = self.run_dlaunch("--nnodes=2", "--node-rank=0", f"--master-addr={name}", f"--master-port={free_port()}", "--join-timeout=0.3", "true")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, rf"{no_names}|the name {name} \(--master-addr\) is not known on this machine: the store listens on all interfaces")

    def test_a_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            self.expect(1, f"in use by process {os.getpid()} ", f"--master-port={port}", "true")

    def test_a_master_that_never_answers_is_named(self):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))  # bound, not listening: refuses for as long as we hold it
            port = closed.getsockname()[1]
            done = self.run_dlaunch("--nnodes=2", "--node-rank=1", f"--master-port={port}", "--join-timeout=0.3", "true")
            self.assertEqual(done.returncode, 1, done.stderr)
            # On a busy machine, even an immediate rejection may be noticed too late.
            self.assertRegex(done.stderr, rf"^dlaunch: failed: waited 300 ms for node 0 at 127\.0\.0\.1:{port}, which never answered: "
                                          r"(connection refused|no answer within \S+ \w+) \(the host .*\)\n$")

    def test_another_server_at_the_port_is_reported(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            job = self.start("--nnodes=2", "--node-rank=1", f"--master-port={port}", "true")
            other.settimeout(PATIENCE)
            with other.accept()[0] as connection:
                connection.recv(1)  # else closing would take the answer back
                connection.sendall(b"<!DOCTYPE HTML><title>Error response</title>")
                err = job.communicate(timeout=PATIENCE)[1]
            self.assertEqual(job.returncode, 1)
            self.assertIn("what answers there is no dlaunch: it begins with '<!DOCTYPE HTML><title>", err)

    def test_nodes_that_never_come_are_named(self):
        self.expect(1, "nodes 1 and 2 of 3 did not come to ", "--nnodes=3", "--node-rank=0", f"--master-port={free_port()}",
                    "--join-timeout=0.3", "true")

    def test_help(self):
        self.assertIn("Usage: dlaunch [options] program", self.run_dlaunch("--help").stdout)


class Health(Launch):
    PORT = "TORCHELASTIC_HEALTH_CHECK_PORT"

    def answer(self, port, path):
        """Status and text; None: no process listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()
        except urllib.error.URLError:
            return None

    def test_every_node_answers_also_one_that_serves_no_store(self):
        master, *ports = (free_port() for _ in range(3))
        jobs = [self.start("--nnodes=2", f"--node-rank={i}", f"--master-port={master}", "sleep", "1000", **{self.PORT: str(port)})
                for i, port in reversed(list(enumerate(ports)))]
        for port in ports:
            wait_until(lambda: self.answer(port, "/healthz") == (200, b"ok\n"), f"the agent at port {port} answers")
            self.assertEqual(self.answer(port, "/status")[0], 404)
        for job in jobs:
            job.terminate()
            job.communicate(timeout=PATIENCE)
        self.assertEqual([self.answer(port, "/healthz") for port in ports], [None, None])

    def test_a_port_that_cannot_be_had_is_an_error_before_anything_is_started(self):
        for text in ("http", "0", "65536", "-1"):
            done = self.run_dlaunch("echo", "started", **{self.PORT: text})
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertRegex(done.stderr, f"^dlaunch: {self.PORT}.*{text}")
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            done = self.run_dlaunch("echo", "started", **{self.PORT: str(port)})
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertRegex(done.stderr.splitlines()[-1], rf":{port}: .*in use.*choose a free port with {self.PORT}")

    def test_without_a_port_there_is_none(self):
        self.assertEqual(self.run_dlaunch("true", **{self.PORT: ""}).returncode, 0)


class Settings(Launch):
    def test_a_dry_run_prints_the_plan_and_starts_nothing(self):
        done = self.run_dlaunch("--dry-run", "--nproc-per-node=2", "--bind=core", "sh", "-c", "echo started > started.$RANK")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("rank 1:\n  command: sh -c 'echo started > started.$RANK'\n  cpus: ", done.stdout)
        self.assertEqual(os.listdir(self.dir), [])
        self.assertEqual(self.run_dlaunch("--dry-run", "no-such-program-anywhere").returncode, 1)

    def test_variables_and_a_file_set_flags(self):
        with open(os.path.join(self.dir, "job.json"), "w", encoding="utf-8") as file:
            file.write('{"nproc-per-node": 3, "role": "from_the_file"}')
        script = ("sh", "-c", "echo $RANK $ROLE_NAME $TORCHELASTIC_MAX_RESTARTS")
        done = self.run_dlaunch("--config=job.json", *script, PET_MAX_RESTARTS="4", DLAUNCH_ROLE="of_the_variable")
        self.assertEqual(sorted(done.stdout.splitlines()), [f"{rank} of_the_variable 4" for rank in range(3)], done.stderr)
        done = self.run_dlaunch("--nproc-per-node=1", *script, DLAUNCH_CONFIG="job.json")
        self.assertEqual(done.stdout, "0 from_the_file 0\n")
        done = self.run_dlaunch("true", DLAUNCH_CONFIG="missing.json")
        self.assertEqual((done.returncode, done.stderr),
                         (2, "dlaunch: DLAUNCH_CONFIG: cannot read missing.json: No such file or directory\n"))

    def test_a_slurm_step_of_one_node_is_reported_in_one_line(self):
        done = self.run_dlaunch("sh", "-c", "echo $TORCHELASTIC_RUN_ID", SLURM_JOB_ID="42", SLURM_STEP_ID="0", SLURM_NODEID="0",
                                SLURM_STEP_NUM_NODES="1", SLURM_STEP_NODELIST="c[7]")
        self.assertEqual((done.returncode, done.stdout), (0, "slurm-42.0\n"), done.stderr)
        self.assertEqual(done.stderr, "dlaunch: Slurm step 42.0: nodes 1, node rank 0, id slurm-42.0\n")

    def test_two_nodes_of_a_slurm_step_find_each_other(self):
        step = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NODELIST": "127.0.0.[1-2]"}
        jobs = [subprocess.Popen([DLAUNCH, "sh", "-c", "echo $RANK of $WORLD_SIZE"], cwd=self.dir, text=True, stdin=subprocess.DEVNULL,
                                 env={**environment(), **step, "SLURM_NODEID": str(node)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                for node in range(2)]
        for node, job in enumerate(jobs):
            self.addCleanup(self.finish, job)
            out, err = job.communicate(timeout=PATIENCE)
            self.assertEqual((job.returncode, out), (0, f"{node} of 2\n"), err)

    def test_mpirun_starts_the_nodes(self):
        open_mpi = ("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe")
        for command in (open_mpi, ("mpiexec.hydra",)):
            with self.subTest(command[0]):
                done = subprocess.run([*command, "-n", "2", DLAUNCH, "--nproc-per-node=2", f"--master-port={free_port()}",
                                       "sh", "-c", "echo $RANK of $WORLD_SIZE on $GROUP_RANK"],
                                      cwd=self.dir, env=environment(), text=True, stdin=subprocess.DEVNULL, capture_output=True,
                                      timeout=PATIENCE, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(sorted(done.stdout.splitlines()), [f"{rank} of 4 on {rank // 2}" for rank in range(4)])

    def test_two_runs_of_hydra_on_one_host_are_two_jobs(self):
        # Both are there at the same time, one of them started by a script; each ends only when both are.
        worker = 'echo > up.$1.$RANK; while [ ! -e up.0.0 -o ! -e up.0.1 -o ! -e up.1.0 -o ! -e up.1.1 ]; do sleep 0.01; done; ' \
                 'echo run $1 rank $RANK of $WORLD_SIZE at $MASTER_PORT id $TORCHELASTIC_RUN_ID'
        with open(os.path.join(self.dir, "between"), "w", encoding="utf-8") as script:
            script.write('#!/bin/sh\n"$@"\n')
        os.chmod(os.path.join(self.dir, "between"), 0o755)
        runs = [subprocess.Popen(["mpiexec.hydra", "-n", "2", *between, DLAUNCH, "sh", "-c", worker, "sh", str(run)], cwd=self.dir,
                                 env=environment(), text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                for run, between in enumerate(((), ("./between",)))]
        for process in runs:
            self.addCleanup(self.finish, process)
        places = set()
        for run, process in enumerate(runs):
            out, err = process.communicate(timeout=PATIENCE)
            self.assertEqual(process.returncode, 0, err)
            lines = sorted(out.splitlines())
            self.assertEqual([line.split(" at ")[0] for line in lines], [f"run {run} rank {rank} of 2" for rank in range(2)])
            self.assertEqual(len({line.split(" at ")[1] for line in lines}), 1)
            places.update(line.split(" at ")[1] for line in lines)
        self.assertEqual(len(places), 2)

    def test_events_on_the_console_are_lines_of_json(self):
        for arguments, variables in ((("--event-log-handler=console",), {}), ((), {"PET_EVENT_LOG_HANDLER": "console"})):
            done = self.run_dlaunch(*arguments, "--rdzv-id=j", "--nproc-per-node=2", "--events=events", "sh", "-c", "echo {rank $RANK >&2", **variables)
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = done.stderr.splitlines()
            self.assertEqual(sorted(line for line in lines if line.startswith("{rank")), ["{rank 0", "{rank 1"])
            shown = [line for line in lines if not line.startswith("{rank")]
            told = [json.loads(line) for line in shown]
            self.assertEqual({one["job"] for one in told}, {"j"})
            self.assertEqual([one["event"] for one in told].count("started"), 2)
            self.assertIn("world", [one["event"] for one in told])
            with open(os.path.join(self.dir, "events"), encoding="utf-8") as file:
                self.assertEqual(file.read().splitlines()[-len(shown):], shown)

    def test_an_old_script_gets_its_local_rank_as_an_argument(self):
        done = self.run_dlaunch("--nproc-per-node=2", "--pass-local-rank", "echo", "a")
        self.assertEqual(sorted(done.stdout.splitlines()), ["--local-rank=0 a", "--local-rank=1 a"])
        done = self.run_dlaunch("--pass_local_rank", "--use_env", "echo", "a", "--local_rank=${local_rank}")
        self.assertEqual(done.stdout, "a --local_rank=0\n")

    def test_a_named_signal_stops_the_job(self):
        job = self.start("--signals-to-handle=SIGUSR1", "sh", "-c", "trap 'echo got it > usr1; exit 0' USR1; echo $$ > pid.0; while :; do sleep 0.01; done")
        self.pids(1)
        job.send_signal(signal.SIGUSR1)
        _, err = job.communicate(timeout=PATIENCE)
        self.assertEqual(job.returncode, 128 + signal.SIGUSR1, err)
        self.assertTrue(os.path.exists(os.path.join(self.dir, "usr1")))


class Placement(Launch):
    AFFINITY = ("sh", "-c", "echo $LOCAL_RANK $OMP_NUM_THREADS $(grep Cpus_allowed_list: /proc/self/status | cut -f2)")

    def setUp(self):
        super().setUp()
        self.allowed = sorted(os.sched_getaffinity(0))

    @staticmethod
    def cpus(text):
        ends = [part.partition("-") for part in text.split(",")]
        return {cpu for first, _, last in ends for cpu in range(int(first), int(last or first) + 1)}

    def test_a_bound_worker_has_the_cpus_that_the_dry_run_names(self):
        for flag in ("--bind=core", "--bind=numa", "--numa-binding=node", "--numa-binding=exclusive", "--numa-binding=core-complex"):
            with self.subTest(flag):
                plan = self.run_dlaunch("--dry-run", "--nproc-per-node=2", flag, *self.AFFINITY)
                if "near GPU" in plan.stdout or "usable GPU" in plan.stderr:
                    continue  # a machine with GPUs: how they are attached is not this test's
                expected = [self.cpus(text) for text in re.findall(r"cpus: (\S+) ", plan.stdout)]
                done = self.run_dlaunch("--nproc-per-node=2", flag, *self.AFFINITY)
                lines = [line.split() for line in sorted(done.stdout.splitlines())]
                self.assertEqual([self.cpus(line[2]) for line in lines], expected, plan.stdout + done.stderr)
                self.assertTrue(all(mask <= set(self.allowed) for mask in expected))

    @staticmethod
    def memory_policy_is_allowed():
        number = {"x86_64": 239, "aarch64": 236}.get(platform.machine())  # get_mempolicy
        return number is not None and ctypes.CDLL(None).syscall(number, None, None, 0, None, 0) == 0

    def test_a_worker_bound_to_a_node_prefers_its_memory(self):
        if not os.path.exists("/sys/devices/system/node/node0"):
            self.skipTest("the kernel tells of no NUMA node here")
        if not self.memory_policy_is_allowed():
            self.skipTest("no memory policy may be asked for here")
        policy = ("sh", "-c", "head -n 1 /proc/self/numa_maps | cut -d' ' -f2")
        inherited = subprocess.run(policy, text=True, capture_output=True, timeout=PATIENCE, check=True).stdout
        for flag in ("--bind=numa", "--numa-binding=exclusive"):
            with self.subTest(flag):
                plan = self.run_dlaunch("--dry-run", "--nproc-per-node=2", flag, *policy)
                if "near GPU" in plan.stdout or "usable GPU" in plan.stderr:
                    continue  # a machine with GPUs: how they are attached is not this test's
                nodes = re.findall(r"memory: node (\d+) preferred", plan.stdout)
                self.assertEqual(len(nodes), 2, plan.stdout + plan.stderr)
                done = self.run_dlaunch("--nproc-per-node=2", flag, *policy)
                self.assertEqual(sorted(done.stdout.splitlines()), sorted(f"prefer:{node}" for node in nodes), done.stderr)
        self.assertEqual(self.run_dlaunch("--bind=core", *policy).stdout, inherited)

    def test_cores_are_not_shared_if_there_are_enough(self):
        done = self.run_dlaunch("--nproc-per-node=2", "--bind=core", *self.AFFINITY)
        first, second = (self.cpus(line.split()[2]) for line in sorted(done.stdout.splitlines()))
        if len(self.allowed) > 1:
            self.assertEqual(first & second, set())
            self.assertEqual(first | second, set(self.allowed))
        else:
            self.assertEqual(first, second)

    def test_the_callers_own_mask_is_respected_and_threads_follow_the_cores(self):
        last = self.allowed[-1]
        done = subprocess.run(["taskset", "-c", str(last), DLAUNCH, "--bind=core", *self.AFFINITY], cwd=self.dir, env=environment(),
                              text=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.stdout, f"0 1 {last}\n", done.stderr)

    def test_automatic_threads_are_a_share_of_the_callers_cpus(self):
        for workers in (1, 2, len(self.allowed) + 1):
            with self.subTest(workers):
                done = self.run_dlaunch(f"--nproc-per-node={workers}", "sh", "-c", "echo $OMP_NUM_THREADS", OMP_NUM_THREADS="auto")
                self.assertEqual(done.stdout, f"{max(1, len(self.allowed) // workers)}\n" * workers, done.stderr)

    def test_an_unbound_worker_has_what_dlaunch_has(self):
        done = self.run_dlaunch(*self.AFFINITY)
        self.assertEqual(self.cpus(done.stdout.split()[-1]), set(self.allowed))

    def test_a_virtual_local_rank_sees_one_gpu(self):
        done = self.run_dlaunch("--virtual-local-rank", "--nproc-per-node=2", "sh", "-c", "echo $RANK $LOCAL_RANK $CUDA_VISIBLE_DEVICES",
                                CUDA_VISIBLE_DEVICES="4,GPU-ab")
        self.assertEqual(sorted(done.stdout.splitlines()), ["0 0 4", "1 0 GPU-ab"])
        done = self.run_dlaunch("--virtual-local-rank", "--nproc-per-node=2", "true", CUDA_VISIBLE_DEVICES="4")
        self.assertEqual(done.returncode, 2)
        self.assertIn("CUDA_VISIBLE_DEVICES names 1 GPU", done.stderr)

    def test_error_files_go_with_log_files_and_signals_are_reported(self):
        script = ("sh", "-c", "echo ${TORCHELASTIC_ERROR_FILE-unset}, $TORCHELASTIC_SIGNALS_TO_HANDLE; echo last words >&2; "
                  '[ -z "$TORCHELASTIC_ERROR_FILE" ] || exit 0; exit 3')
        done = self.run_dlaunch("--log-dir=/dev/null", *script, TORCHELASTIC_ERROR_FILE="")
        self.assertEqual((done.returncode, done.stdout), (3, ", SIGTERM,SIGINT,SIGHUP,SIGQUIT\n"), done.stderr)
        self.assertIn("last words", done.stderr[len("last words"):])
        done = self.run_dlaunch("--signals-to-handle=SIGUSR1,TERM", *script)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^/\S+error\.json, SIGUSR1,SIGTERM\n$")

    def test_what_dlaunch_sets_by_itself_can_be_left(self):
        script = ("sh", "-c", "echo ${OMP_NUM_THREADS-unset} ${GLOO_ENABLE_STORE_V2_API-unset} ${GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER-unset}")
        self.assertEqual(self.run_dlaunch("--nproc-per-node=2", *script).stdout, "1 1 1\n" * 2)
        self.assertEqual(self.run_dlaunch("--nproc-per-node=2", "--no-env-defaults", *script).stdout, "unset unset unset\n" * 2)
        self.assertEqual(self.run_dlaunch(*script, GLOO_ENABLE_STORE_V2_API="0").stdout, "unset 0 1\n")


class Python(Launch):
    def test_a_script_is_started_with_unbuffered_python_by_default(self):
        with open(os.path.join(self.dir, "job.py"), "w", encoding="utf-8") as script:
            script.write("#!/bin/sh\nimport = 0\n")
        with open(os.path.join(self.dir, "fake"), "w", encoding="utf-8") as python:
            python.write('#!/bin/sh\necho "$@"\n')
        os.chmod(os.path.join(self.dir, "fake"), 0o755)
        os.chmod(os.path.join(self.dir, "job.py"), 0o755)
        self.assertEqual(self.run_dlaunch("job.py", "--epochs=2", PYTHON_EXEC="./fake").stdout, "-u job.py --epochs=2\n")
        self.assertEqual(self.run_dlaunch("-m", "pkg.mod", "x", PYTHON_EXEC="./fake").stdout, "-u -m pkg.mod x\n")
        self.assertEqual(self.run_dlaunch("--no-python", "./job.py").returncode, 127)

    def test_source_is_known_by_what_lies_there(self):
        def write(name, text, mode=0o644):
            path = os.path.join(self.dir, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(path, mode)
        write("bin/fake", '#!/bin/sh\necho "$@"\n', 0o755)
        write("bin/both", "#!/bin/sh\necho of PATH\n", 0o755)
        write("bin/pkg2", "#!/bin/sh\necho of PATH\n", 0o755)
        write("both", "")
        write("pkg2/__main__.py", "")
        write("noext", "print(1)\n")
        write("named", "#!/usr/bin/env python3\nprint(1)\n")
        write("exec", "#!/bin/sh\necho itself\n", 0o755)
        write("app.pyz", "")
        write("pkgdir/__main__.py", "")
        os.symlink("noext", os.path.join(self.dir, "link"))
        variables = {"PYTHON_EXEC": "./bin/fake", "PATH": f"{self.dir}/bin:/usr/bin:/bin"}
        for program in ("noext", "./noext", "./named", "./link", "app.pyz", "./app.pyz", "pkgdir", "./pkgdir/", "./both", "./pkg2"):
            with self.subTest(program):
                done = self.run_dlaunch(program, "--x", **variables)
                self.assertEqual((done.returncode, done.stdout), (0, f"-u {program} --x\n"), done.stderr)
        for program, output in (("both", "of PATH\n"), ("pkg2", "of PATH\n"), ("./exec", "itself\n")):
            with self.subTest(program):
                done = self.run_dlaunch(program, **variables)
                self.assertEqual((done.returncode, done.stdout), (0, output), done.stderr)
        done = self.run_dlaunch("exec", **variables)
        self.assertEqual((done.returncode, done.stderr), (1, "dlaunch: cannot start 'exec': it is not on PATH; did you mean ./exec?\n"))
        done = self.run_dlaunch("pkgdir", **{**variables, "PYTHON_EXEC": "python3"})
        self.assertEqual(done.returncode, 0, done.stderr)


PYTHON = TORCH_PYTHON


class AgainstTorchrun(Launch):
    """The same command line under both: the workers' arguments and variables are the same, but for ids and ports."""

    DUMP = """
import json, os, sys
names = ("RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_NAME ROLE_RANK ROLE_WORLD_SIZE "
         "TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS OMP_NUM_THREADS").split()
if os.environ["FIXED"] == "1":  # PyTorch 1.13 has the store in another process
    names += "MASTER_ADDR TORCHELASTIC_USE_AGENT_STORE TORCHELASTIC_RUN_ID".split()
variables = {name: os.environ.get(name) for name in names}
variables["its port"] = os.environ["MASTER_PORT"] == os.environ.get("PORT", os.environ["MASTER_PORT"])
variables["an error file"] = bool(os.environ.get("TORCHELASTIC_ERROR_FILE"))
# PyTorch 2 writes --local-rank, 1.13 --local_rank.
arguments = [argument.replace("--local_rank=", "--local-rank=") for argument in sys.argv[1:]]
with open(os.environ["MARK"] + "." + os.environ["RANK"], "w") as file:
    json.dump([arguments, __name__, variables], file, sort_keys=True)
"""

    def test_worker_rank_zero_may_serve_the_store(self):
        """The contract for a PyTorch without libuv, which cannot be an agent's client."""
        options = ["--nproc-per-node=2", "--max-restarts=1"]
        show = ["sh", "-c", 'echo $TORCHELASTIC_USE_AGENT_STORE $MASTER_PORT; "$@"', "sh"]
        programs = [[os.path.join(BIN, "rank_sum")]]
        if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode == 0:
            programs.append([PYTHON, "-c", "import torch, torch.distributed as d; d.init_process_group('gloo'); t = torch.ones(1); "
                             "d.all_reduce(t); print('sum of ones =', int(t))"])
        for program in programs:
            port = free_port()
            done = self.run_dlaunch(*options, f"--worker-store={port}", *show, *program)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout.count(f"False {port}\n"), 2)
            self.assertEqual(len(re.findall(r"sum of (?:ranks = 1|ones = 2)", done.stdout)), 2, done.stdout)

    def torchrun(self):
        found = torchrun()
        if not found:
            self.skipTest("no torchrun here")
        return found

    @staticmethod
    def answers(port):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    def test_a_torchrun_among_the_nodes_is_refused_and_named(self):
        """It would wait until its deadline, and so would we."""
        torchrun = self.torchrun()
        for options in (["--rdzv_backend=c10d", "--rdzv_endpoint=127.0.0.1:{port}"], ["--node_rank=1", "--master_port={port}"]):
            port = free_port()
            job = self.start("--nnodes=2", "--node-rank=0", f"--master-port={port}", "true")
            wait_until(lambda: self.answers(port), "node 0 listens")
            other = subprocess.run([torchrun, "--nnodes=2", *(option.format(port=port) for option in options), "--no_python", "true"],
                                   env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False)
            self.assertNotEqual(other.returncode, 0)
            job.send_signal(signal.SIGTERM)
            err = job.communicate(timeout=PATIENCE)[1]
            self.assertRegex(err, r"rejected 127\.0\.0\.1:\d+: torchrun cannot join a dlaunch job: start dlaunch on that node")

    def test_among_torchruns_it_reports_that_it_cannot_take_part(self):
        torchrun = self.torchrun()
        for theirs, ours in ((["--rdzv_backend=c10d", "--rdzv_endpoint=127.0.0.1:{port}"], ["--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:{port}"]),
                             (["--node_rank=0", "--master_addr=127.0.0.1", "--master_port={port}"], ["--node-rank=1", "--master-port={port}"])):
            port = free_port()
            first = subprocess.Popen([torchrun, "--nnodes=2", *(option.format(port=port) for option in theirs), "--no_python", "true"],
                                     env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(first.wait)
            self.addCleanup(first.kill)
            wait_until(lambda: self.answers(port), "torchrun's node 0 listens")
            done = self.run_dlaunch("--nnodes=2", *(option.format(port=port) for option in ours), "true")
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr.splitlines()[-1], rf"^dlaunch: failed: what listens at 127\.0\.0\.1:{port} hung up before the job began: .*"
                             r"; check that .* runs dlaunch, too \(a torchrun cannot take part in its job\)$")

    def compare(self, options, program, older=False, **variables):
        """Under torchrun (or the older torch.distributed.launch) and under dlaunch; `program`: the words before its own arguments."""
        torchrun = self.torchrun()
        with open(os.path.join(self.dir, "dump.py"), "w", encoding="utf-8") as script:
            script.write(self.DUMP)
        # PyTorch 1.13 under Python 3.11 (Debian 12) knows no other streams than 1 and 2: its own default, 0, crashes it.
        streams = {"PET_REDIRECTS": "1", "PET_TEE": "1", "PET_LOG_DIR": os.path.join(self.dir, "logs")}
        theirs = [PYTHON, "-m", "torch.distributed.launch"] if older else [torchrun]
        ours = [DLAUNCH, "--pass-local-rank"] if older else [DLAUNCH]
        fixed = "--stand" not in options
        dumps = {}
        for name, launcher, more in (("torchrun", theirs, streams), ("dlaunch", ours, {})):
            port = str(free_port())
            named = [f"--master_port={port}"] if fixed else []
            command = [*launcher, "--monitor_interval=0.1", *named, *options, *program, "--nnodes=7", "-t", "a b", "${local_rank}"]
            more = {**more, "MARK": name, "FIXED": str(int(fixed)), **({"PORT": port} if fixed else {})}
            done = subprocess.run(command, cwd=self.dir, env={**environment(), **variables, **more, "PYTHONPATH": self.dir}, text=True,
                                  stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            dumps[name] = {}
            for file_name in sorted(os.listdir(self.dir)):
                if file_name.startswith(name + "."):
                    with open(os.path.join(self.dir, file_name), encoding="utf-8") as file:
                        dumps[name][file_name.partition(".")[2]] = file.read()
        self.assertGreater(len(dumps["torchrun"]), 0)
        self.assertEqual(dumps["dlaunch"], dumps["torchrun"])

    def test_workers_get_the_same(self):
        self.compare(["--nproc_per_node=2", "--role", "trainer", "--max_restarts=3"], ["dump.py"])

    def test_workers_get_the_same_standalone(self):
        self.compare(["--stand"], ["dump.py"], PET_NPROC_PER_NODE="2")

    def test_workers_get_the_same_as_a_module(self):
        self.compare(["--nproc_per_node", "1", "-m"], ["dump"])

    def test_workers_get_the_same_without_python(self):
        self.compare(["--no_python", "--nnodes=1:1", "--"], [sys.executable, "dump.py"], OMP_NUM_THREADS="3")

    def test_workers_get_the_same_with_short_flags(self):
        self.compare(["-t2", "--rdzv_id=run_7"], ["dump.py"], PET_NPROC_PER_NODE="2")

    def test_workers_get_the_same_by_a_path(self):
        self.compare(["--run_path"], [os.path.join(self.dir, "dump.py")])

    def test_workers_get_the_same_as_from_the_older_launch(self):
        self.compare(["--nproc_per_node=2"], ["dump.py"], older=True)

    def test_workers_get_the_same_as_from_the_older_launch_by_variables(self):
        self.compare(["--use_env", "--nproc_per_node=2"], ["dump.py"], older=True)


class Nodes(Launch):
    """Several nodes of a job on this machine."""

    def start_nodes(self, options_of_each, *command):
        """By node rank: the agents."""
        port = free_port()
        return [self.start(f"--nnodes={len(options_of_each)}", f"--node-rank={i}", "--master-addr=127.0.0.1", f"--master-port={port}",
                           *options, *command) for i, options in enumerate(options_of_each)]

    def test_each_role_counts_its_own_workers(self):
        jobs = self.start_nodes([["--role=reader"], ["--role=trainer", "--nproc-per-node=2"], ["--role=reader", "--nproc-per-node=2"]],
                                "sh", "-c", "echo $RANK $WORLD_SIZE $ROLE_NAME $ROLE_RANK $ROLE_WORLD_SIZE")
        out = ""
        for job in jobs:
            said, err = job.communicate(timeout=PATIENCE)
            self.assertEqual(job.returncode, 0, err)
            out += said
        self.assertEqual(sorted(out.splitlines()), ["0 5 reader 0 3", "1 5 trainer 0 2", "2 5 trainer 1 2", "3 5 reader 1 3", "4 5 reader 2 3"])


    def test_preemption_notice_reaches_all_nodes_that_requested_it(self):
        """Two nodes save together. A third requested no notice, and the signal would kill its worker."""
        worker = ("if [ $RANK = 2 ]; then echo $$ > pid.2; while [ ! -e saved.0 ] || [ ! -e saved.1 ]; do sleep 0.01; done; exit 0; fi; "
                  "trap 'echo >> saved.$RANK; while [ ! -e saved.$((1 - RANK)) ]; do sleep 0.01; done; exit $CODE' USR1; echo $$ > pid.$RANK; while :; do sleep 0.01; done")
        notice = "--preempt-signal=USR1@50"
        for code, ends in ((0, 0), (9, 143)):
            jobs = self.start_nodes([[notice, "--max-restarts=2"], [notice, "--max-restarts=2"], ["--max-restarts=2"]],
                                    "sh", "-c", f"CODE={code}; {worker}")
            self.pids(3)
            jobs[1].send_signal(signal.SIGTERM)
            errors = [job.communicate(timeout=PATIENCE)[1] for job in jobs]
            self.assertEqual([job.returncode for job in jobs], [ends] * 3, errors)
            self.assertRegex(errors[0], r"dlaunch: node 1 \(host .*\) was told to end: giving the workers notice by SIGUSR1\n")
            self.assertNotIn("notice", errors[2])
            for rank in range(3):
                os.unlink(os.path.join(self.dir, f"pid.{rank}"))
            for rank in range(2):
                with open(os.path.join(self.dir, f"saved.{rank}"), encoding="utf-8") as saved:
                    self.assertEqual(saved.read(), "\n")
                os.unlink(os.path.join(self.dir, f"saved.{rank}"))


class TwoHosts(Launch):
    def setUp(self):
        super().setUp()
        self.hosts = Hosts(self, 2)

    def on(self, i, *arguments):
        return self.start("--nnodes=2", f"--node-rank={i}", f"--master-addr={self.hosts.addresses[0]}", "--master-port=29500",
                          *arguments, prefix=self.hosts.on(i))

    def test_an_unresolvable_name_is_not_reported_as_a_port_problem(self):
        # Only ssh's configuration may know it; there are no name servers here.
        look_up = self.hosts.on(0) + [sys.executable, "-c", "import socket, sys\ntry: socket.getaddrinfo('known-to-ssh-alone', 1)\n"
                                      "except socket.gaierror as error: sys.exit(error.errno != socket.EAI_AGAIN)"]
        if subprocess.run(look_up, check=False).returncode != 0:
            self.skipTest("a name that is unknown is known to be so")
        done = subprocess.run(self.hosts.on(0) + [DLAUNCH, "--nnodes=2", "--node-rank=0", "--master-addr=known-to-ssh-alone", "true"],
                              env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("this machine cannot look that name up; give its address with --master-addr", done.stderr)

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
        jobs = [self.on(i, "--stop-timeout=0.5", "sh", "-c", FAMILY) for i in (0, 1)]
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

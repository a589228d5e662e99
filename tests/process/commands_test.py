#!/usr/bin/env python3
"""dlaunch status, top, stop and doctor with real jobs.

    DLAUNCH_BIN_DIR=build/bin commands_test.py [Class.test ...]

Every wait is for an event and has a deadline.
"""

import contextlib
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

from common import DLAUNCH, PATIENCE, free_port, main


class Commands(unittest.TestCase):
    def setUp(self):
        self.id = f"verbs-{uuid.uuid4().hex[:12]}"  # other tests run jobs at the same time

    def run_command(self, *arguments):
        return subprocess.run([DLAUNCH, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE, check=False)

    def start(self, *arguments):
        job = subprocess.Popen([DLAUNCH, f"--rdzv-id={self.id}", *arguments], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.finish, job)
        return job

    @staticmethod
    def finish(job):
        if job.poll() is None:
            job.send_signal(signal.SIGCONT)
            job.kill()
        job.communicate()

    def status(self, condition, what):
        """The job's status, once the condition holds for it."""
        deadline = time.monotonic() + PATIENCE
        while True:
            done = self.run_command("status", "--json", self.id)
            if done.returncode == 0 and done.stdout:
                status = json.loads(done.stdout.splitlines()[0])
                if condition(status):
                    return status
            self.assertLess(time.monotonic(), deadline, f"{what}: {done.stdout}{done.stderr}")

    # A socket like an agent's, which claims to run a job of that id, and answers after a while.
    PRETENDER = """
import json, os, socket, sys, threading, time
job, user = sys.argv[1], int(sys.argv[2])
if user != os.getuid():
    os.setgid(user)
    os.setuid(user)
listener = socket.socket(socket.AF_UNIX)
listener.bind(f"\\0dlaunch/{user}/{os.getpid()}")
listener.listen()
print("up", flush=True)
status = {"job": job, "program": "pretender", "agent": os.getpid(), "endpoint": f"nowhere:{user}"}
def answer(connection):
    time.sleep(float(sys.argv[3]))
    connection.sendall(json.dumps(status).encode())
    connection.close()
while True:
    threading.Thread(target=answer, args=listener.accept()[:1]).start()
"""

    def pretend(self, user, delay=0.0):
        other = subprocess.Popen([sys.executable, "-c", self.PRETENDER, self.id, str(user), str(delay)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.addCleanup(other.communicate)
        self.addCleanup(other.kill)
        self.assertEqual(other.stdout.readline(), "up\n")
        return other


class Status(Commands):
    def test_a_running_job_and_its_workers(self):
        job = self.start("--nproc-per-node=3", "--max-restarts=2", "sh", "-c", "echo hello of $RANK; exec sleep 1000")
        status = self.status(lambda s: [w["state"] for w in s["workers"]] == ["running"] * 3 and all(w["last_output"] for w in s["workers"]), "three workers speak")
        self.assertEqual((status["state"], status["agent"], status["world_size"], status["restarts_used"], status["max_restarts"]),
                         ("running", job.pid, 3, 0, 2))
        self.assertEqual([w["last_output"] for w in status["workers"]], [f"hello of {rank}" for rank in range(3)])
        for worker in status["workers"]:
            os.kill(worker["pid"], 0)
        shown = self.run_command("status", self.id).stdout.splitlines()
        self.assertRegex(shown[1], rf"^{self.id} +0 of 1 +running +3 +3 +0 of 2 +.* {job.pid} +sh -c echo hello")
        self.assertEqual(len(shown), 2 + 1 + 3)
        self.assertEqual(self.run_command("status", str(job.pid)).stdout.splitlines()[1].split()[0], self.id)
        self.assertIn(self.id, self.run_command("status").stdout)

    def test_a_restart_is_counted_and_its_reason_kept(self):
        self.start("--max-restarts=1", "sh", "-c", "[ $TORCHELASTIC_RESTART_COUNT = 0 ] && exit 7; exec sleep 1000")
        status = self.status(lambda s: s["restarts_used"] == 1 and s["state"] == "running", "restarted once")
        self.assertEqual(status["round"], 1)
        self.assertIn("exited with code 7", status["last_failure"])

    def test_missing_nodes_are_shown(self):
        self.start("--nnodes=3", "--node-rank=0", "--master-addr=127.0.0.1", f"--master-port={free_port()}", "true")
        status = self.status(lambda s: s["waiting_for"], "it waits")
        self.assertEqual((status["state"], status["waiting_for"]), ("waiting", "nodes 1 and 2 of 3"))

    def test_a_stopped_worker_is_distinguished(self):
        self.start("--nproc-per-node=2", "sleep", "1000")
        status = self.status(lambda s: [w["state"] for w in s["workers"]] == ["running"] * 2, "both run")
        os.kill(status["workers"][1]["pid"], signal.SIGSTOP)
        self.status(lambda s: [w["state"] for w in s["workers"]] == ["running", "stopped"], "rank 1 is stopped")
        os.kill(status["workers"][1]["pid"], signal.SIGCONT)
        self.status(lambda s: [w["state"] for w in s["workers"]] == ["running"] * 2, "it goes on")

    def test_a_stopped_agent_is_distinguished(self):
        job = self.start("sleep", "1000")
        self.status(lambda s: s["state"] == "running", "it runs")
        job.send_signal(signal.SIGSTOP)
        shown = self.run_command("status", str(job.pid))
        self.assertEqual((shown.returncode, shown.stdout), (0, f"agent {job.pid} does not answer: it is suspended or very busy\n"))
        self.assertIn(f"; agent {job.pid} does not answer, so its job is unknown", self.run_command("stop", self.id).stderr)

    def test_an_agent_on_a_busy_machine_is_waited_for(self):
        slow = [self.pretend(os.getuid(), delay=1.2) for _ in range(3)]
        done = self.run_command("status", self.id)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("does not answer", done.stdout)
        for one in slow:
            self.assertIn(f" {one.pid} ", done.stdout)

    def test_mistakes(self):
        done = self.run_command("status", self.id)
        self.assertEqual(done.returncode, 1)
        # Agents that are stopped just now, another test's, are named too.
        silent = r"(; agent \d+ does not answer, so its job is unknown)*"
        self.assertRegex(done.stderr,
                         rf"^dlaunch: no job '{self.id}' runs on this machine; dlaunch status lists the running jobs{silent}\n$")
        self.assertEqual(self.run_command("status", "a", "b").returncode, 2)
        done = self.run_command("status", "--jsn")
        self.assertEqual((done.returncode, done.stderr), (2, "dlaunch: unknown option --jsn; did you mean --json?\n"))

    def test_a_mistyped_command_is_answered_with_the_right_one(self):
        done = self.run_command("stauts")
        self.assertEqual((done.returncode, done.stderr),
                         (1, "dlaunch: cannot start 'stauts': no such program on PATH; did you mean dlaunch status?\n"))
        self.assertIn("write the command first: dlaunch logs ...", self.run_command("--verbose", "logs").stderr)

    def test_a_program_with_the_name_of_a_command_can_be_started(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "status"), "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\necho I am $RANK\n")
            os.chmod(os.path.join(folder, "status"), 0o755)
            done = subprocess.run([DLAUNCH, "--", "status"], env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
                                  capture_output=True, text=True, timeout=PATIENCE, check=False)
            self.assertEqual((done.returncode, done.stdout), (0, "I am 0\n"), done.stderr)


class Stop(Commands):
    def test_stops_a_job_and_waits_for_its_end(self):
        job = self.start("--nproc-per-node=2", "sleep", "1000")
        pids = [w["pid"] for w in self.status(lambda s: len(s["workers"]) == 2 and all(w["pid"] for w in s["workers"]), "both run")["workers"]]
        done = self.run_command("stop", self.id)
        self.assertEqual((done.returncode, done.stdout), (0, f"job '{self.id}' (agent {job.pid}) has ended\n"), done.stderr)
        self.assertEqual(job.wait(PATIENCE), 143)
        for pid in pids:
            with self.assertRaises(ProcessLookupError):
                os.kill(pid, 0)

    def test_jobs_that_do_not_end_are_reported_and_now_does_not_wait(self):
        job = self.start("sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done")
        self.status(lambda s: s["workers"] and s["workers"][0]["last_output"] == "up", "its trap is set")
        done = self.run_command("stop", "--timeout=0.1", str(job.pid))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, rf"^dlaunch: job '{self.id}' \(agent {job.pid}\) has not ended within 100 ms; .*--now\n$")
        done = self.run_command("stop", "--now", self.id)
        self.assertEqual(done.returncode, 0, done.stderr)
        job.wait(PATIENCE)

    def test_of_two_jobs_of_one_id_the_one_that_is_named(self):
        jobs = [self.start("sleep", "1000") for _ in range(3)]
        deadline = time.monotonic() + PATIENCE
        while len(self.run_command("status", "--json", self.id).stdout.splitlines()) < 3:
            self.assertLess(time.monotonic(), deadline)
        done = self.run_command("stop", self.id)
        self.assertEqual(done.returncode, 2)
        for job in jobs:
            self.assertIn(f"{job.pid} (sleep 1000)", done.stderr)
            self.assertIsNone(job.poll())
        self.assertEqual(self.run_command("stop", str(jobs[0].pid)).returncode, 0)
        self.assertEqual(jobs[0].wait(PATIENCE), 143)
        self.assertIsNone(jobs[1].poll())
        self.assertEqual(self.run_command("stop", "--all", self.id).returncode, 0)
        self.assertEqual([job.wait(PATIENCE) for job in jobs], [143, 143, 143])

    @unittest.skipIf(os.geteuid() != 0, "only root sees other users' jobs")
    def test_of_other_users_jobs_with_the_same_id_none_is_meant(self):
        others = [self.pretend(user) for user in (65533, 65534)]
        done = self.run_command("stop", self.id)
        self.assertEqual(done.returncode, 2)
        for other, user in zip(others, (65533, 65534)):
            self.assertIn(f"{other.pid} of user {user} (pretender)", done.stderr)
        job = self.start("sleep", "1000")
        self.status(lambda s: s["agent"] == job.pid and s["state"] == "running", "it runs")
        done = self.run_command("stop", self.id)
        self.assertEqual((done.returncode, done.stdout), (0, f"job '{self.id}' (agent {job.pid}) has ended\n"), done.stderr)
        self.assertEqual(job.wait(PATIENCE), 143)
        self.assertEqual([other.poll() for other in others], [None, None])

    def test_two_nodes_of_one_job_are_one_job(self):
        both = ["--nnodes=2", "--master-addr=127.0.0.1", f"--master-port={free_port()}"]
        jobs = [self.start(*both, f"--node-rank={rank}", "sleep", "1000") for rank in range(2)]
        deadline = time.monotonic() + PATIENCE
        while self.run_command("status", "--json", self.id).stdout.count('"state":"running"') < 4:  # agents and workers
            self.assertLess(time.monotonic(), deadline)
        done = self.run_command("stop", self.id)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([job.wait(PATIENCE) for job in jobs], [143, 143])

    def test_what_stands_alone_is_not_stopped_with_others(self):
        alone = subprocess.Popen([DLAUNCH, "--standalone", "sleep", "1000"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(alone.wait)
        self.addCleanup(alone.kill)
        deadline = time.monotonic() + PATIENCE
        while True:
            done = self.run_command("status", "--json", str(alone.pid))
            if done.returncode == 0 and done.stdout:
                break
            self.assertLess(time.monotonic(), deadline)
        self.assertRegex(json.loads(done.stdout)["job"], r"^standalone-[0-9a-f]{16}$")

    def test_mistakes(self):
        self.assertEqual(self.run_command("stop").returncode, 2)
        self.assertEqual(self.run_command("stop", "--timeout=x", "y").returncode, 2)
        self.assertEqual(self.run_command("stop", self.id).returncode, 1)


class Top(Commands):
    def test_one_snapshot_if_output_is_no_terminal(self):
        self.start("--nproc-per-node=2", "sh", "-c", "echo busy $RANK; while :; do :; done")
        self.status(lambda s: len(s["workers"]) == 2 and all(w["last_output"] for w in s["workers"]), "both speak")
        done = self.run_command("top", self.id)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"\nRANK +PID +STATE +CPU +MEM +OPS/S +LATE +LATELY +OPERATION +LAST OUTPUT\n"
                         r" +0 +\d+ +running +\d+% +\d+M +0\.0 +- +[.?]\? +- +busy 0\n +1 +\d+ +running +\d+% +\d+M +0\.0 +- +[.?]\? +- +busy 1\n$")
        self.assertNotIn("\x1b", done.stdout, "colours are for terminals")
        self.assertEqual(self.run_command("top", "--sort=size", self.id).returncode, 2)

    def test_a_live_view_that_q_ends(self):
        self.start("sh", "-c", "echo first words; exec sleep 1000")
        self.status(lambda s: s["workers"] and s["workers"][0]["last_output"], "it speaks")
        controller, terminal = pty.openpty()
        self.addCleanup(os.close, controller)
        view = subprocess.Popen([DLAUNCH, "top", "--interval=0.05", self.id], stdin=terminal, stdout=terminal)
        self.addCleanup(view.kill)
        os.close(terminal)
        seen = b""
        deadline = time.monotonic() + PATIENCE
        while seen.count(b"first words") < 4:  # the program's line and the worker's, in two pictures
            self.assertLess(time.monotonic(), deadline, seen)
            if select.select([controller], [], [], 1)[0]:
                seen += os.read(controller, 65536)
        self.assertIn(b"\x1b[?1049h", seen)
        self.assertIn(b"q quit", seen)
        self.assertNotIn(b"LAST OUTPUT", seen, "there are only 80 columns")
        os.write(controller, b"o")
        while b"LAST OUTPUT" not in seen:
            self.assertLess(time.monotonic(), deadline, seen)
            seen += os.read(controller, 65536)
        os.write(controller, b"q")
        while True:
            self.assertLess(time.monotonic(), deadline, seen)
            try:
                piece = os.read(controller, 65536)
            except OSError:  # the other side has closed
                break
            if not piece:
                break
            seen += piece
        self.assertEqual(view.wait(PATIENCE), 0)
        self.assertTrue(seen.endswith(b"\x1b[?1049l"), seen[-40:])


class Manual(Commands):
    def test_each_command_has_a_page(self):
        usage = re.search(r"dlaunch (status(?:\|\w+)+) \.\.\.", self.run_command("--help").stdout)
        names = usage.group(1).split("|")
        self.assertGreaterEqual(len(names), 8)
        folder = os.path.join(os.path.dirname(__file__), "..", "..", "man")
        for name in names:
            self.assertIn(f"dlaunch {name}", self.run_command(name, "--help").stdout)
            with open(os.path.join(folder, f"dlaunch-{name}.1"), encoding="utf-8") as file:
                page = file.read()
            if page.startswith(".so man1/"):
                with open(os.path.join(folder, page.split("/")[1].strip()), encoding="utf-8") as file:
                    page = file.read()
            self.assertRegex(page, rf"(?m)^\.B \"?(dlaunch )?{name}\b")


class Doctor(Commands):
    def test_every_line_is_graded(self):
        done = self.run_command("doctor")
        self.assertIn(done.returncode, (0, 1), done.stderr)
        for line in done.stdout.splitlines():
            self.assertRegex(line, r"^(ok    |note  |BAD   )\S")
        self.assertEqual(done.returncode, 1 if "BAD   " in done.stdout else 0)
        for what in ("Linux", "/dev/shm", "port 29500", "host name", "open files", "gdb", "py-spy", "attach", "core dump"):
            self.assertIn(what, done.stdout)

    def test_the_way_to_a_peer(self):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
            refused = self.run_command("doctor", f"--peer=127.0.0.1:{port}").stdout.splitlines()[-1]
            self.assertRegex(refused, rf"^note  the host of 127\.0\.0\.1:{port} answered after .*, but nothing listens on that port: ")
            listener.listen()
            self.assertRegex(self.run_command("doctor", f"--peer=127.0.0.1:{port}").stdout.splitlines()[-1],
                             rf"^ok    127\.0\.0\.1:{port} answered after ")
        unknown = self.run_command("doctor", "--peer=no-such-host.invalid:29500")
        self.assertEqual(unknown.returncode, 1)
        self.assertRegex(unknown.stdout.splitlines()[-1], r"^BAD   no-such-host\.invalid:29500: .*: check the name")
        self.assertEqual(self.run_command("doctor", "--peer=h:99999").returncode, 2)
        for empty, said in ((["--peer="], "HOST[:PORT],... missing"),
                            (["--peer", ""], "--peer is empty; give HOST, HOST,HOST or HOST:PORT; is a shell variable empty?")):
            none = self.run_command("doctor", *empty)
            self.assertEqual((none.returncode, none.stdout), (2, ""))
            self.assertIn(said, none.stderr)

    def test_gpus_by_a_double_of_nvidia_smi(self):
        with tempfile.TemporaryDirectory() as folder:
            double = os.path.join(folder, "nvidia-smi")
            with open(double, "w", encoding="utf-8") as script:
                script.write('''#!/bin/sh
case "$*" in
*query-gpu*)
  echo "0, NVIDIA H200, 00000000:19:00.0, 143771, 5, 5, 16, 16, Enabled, Default, Disabled, 3, 0x0000000000000001, 0x0000000000000001"
  echo "1, NVIDIA H200, 00000000:1A:00.0, 143771, 5, 5, 8, 16, Enabled, Default, Disabled, 0, 0x0000000000000001, 0x0000000000000001";;
"topo -m") printf '\\t\\033[4mGPU0\\tGPU1\\tCPU Affinity\\033[0m\\nGPU0\\t X \\tSYS\\t0-15\\nGPU1\\tSYS\\t X \\t0-15\\n';;
esac
''')
            os.chmod(double, 0o755)
            with open(os.path.join(folder, "libnccl.so.2"), "wb") as library:
                library.write(b"NCCL version 2.18.1+cuda12.1\n\0")
            environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "LD_LIBRARY_PATH": folder}

            def doctor(*arguments):
                return subprocess.run([DLAUNCH, "doctor", *arguments], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                      timeout=PATIENCE, check=False)
            done = doctor()
            self.assertEqual((done.returncode, done.stderr), (1, ""))
            self.assertRegex(done.stdout, r"(?m)^(ok   |note ) 2 GPUs: NVIDIA H200 with 140 GiB")
            for line in (r"BAD   uncorrected memory errors \(ECC\) since the driver was loaded: GPU 0: ",
                         r"note  PCIe of GPU 1 is below what it can be: gen 5 x8 of gen 5 x16: ",
                         r"note  no NVLink between the GPUs: .* \(SYS\), the slowest way: GPU0-GPU1: ",
                         rf"note  NCCL 2\.18\.1 for CUDA 12\.1: {folder}/libnccl\.so\.2 is too old "):
                self.assertRegex(done.stdout, "(?m)^" + line)
            found = json.loads(doctor("--json").stdout)["gpu"]
            self.assertEqual([gpu["pcie_width"] for gpu in found["devices"]], [16, 8])
            self.assertEqual((found["nccl"]["version"], found["links"][0]["path"]), ("2.18.1", "SYS"))

    def test_a_probe_that_is_given_nonsense_ends(self):
        done = subprocess.run([DLAUNCH, "doctor", "--probe"], input="{}\n", capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertTrue(done.stdout.startswith("dlaunch-doctor: {"))
        self.assertIn("its field host is missing or bad", done.stderr)
        done = subprocess.run([DLAUNCH, "doctor", "--probe"], input="", capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_remote_shell_that_is_not_there(self):
        done = self.run_command("doctor", "--peer=h", "--ssh=no-such-ssh -x")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, "no-such-ssh.*name the remote shell with --ssh")


class Completion(Commands):
    def complete(self, *words):
        """What bash would propose for the last word."""
        script = ('dlaunch=$1; source <("$1" completion bash); shift; COMP_WORDS=("$dlaunch" "$@"); COMP_CWORD=$#; _dlaunch; '
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", script, "bash", DLAUNCH, *words], capture_output=True, text=True, timeout=PATIENCE, check=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_bash_completes_flags_values_and_commands_but_no_program_arguments(self):
        self.assertEqual(self.complete("--nproc"), ["--nproc-per-node"])
        self.assertEqual(self.complete("--bind", "=", "n"), ["none", "numa"])
        self.assertEqual(self.complete("--bind", "g"), ["gpu"])
        self.assertIn("status", self.complete("stat"))
        self.assertEqual(self.complete("--nnodes", "2", "./train", "--nn"), [])
        self.assertEqual(self.complete("--nnodes=2", "--max-r"), ["--max-restarts"])

    def test_the_other_spelling(self):
        self.assertEqual(self.complete("--local_r"), ["--local_ranks_filter"])
        self.assertEqual(self.complete("--nproc_"), ["--nproc_per_node"])

    def test_a_commands_own_options_and_the_jobs(self):
        self.start("sleep", "1000")
        self.status(lambda s: s["state"] == "running", "it runs")
        self.assertEqual(self.complete("logs", "--f"), ["--follow"])
        self.assertEqual(self.complete("status", "--"), ["--help", "--json", "--endpoint", "--token-file"])
        self.assertEqual(self.complete("stop", "--all", self.id[:9]), [self.id])
        self.assertEqual(self.complete("completion", "z"), ["zsh"])
        self.assertEqual(self.complete("doctor", "--"), ["--help", "--peer", "--ssh", "--json"])

    def test_fish_proposes_the_same(self):
        if not shutil.which("fish"):
            self.skipTest("there is no fish")
        self.start("sleep", "1000")
        self.status(lambda s: s["state"] == "running", "it runs")
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "HOME": folder, "PATH": f"{os.path.dirname(os.path.abspath(DLAUNCH))}:{os.environ['PATH']}"}
            for line, proposed in (("dlaunch logs --", "--follow"), (f"dlaunch stop {self.id[:9]}", self.id), ("dlaunch --nproc", "--nproc-per-node"),
                                   ("dlaunch doctor --", "--peer"), ("dlaunch stat", "status"), ("dlaunch --bind=n", "--bind=numa"),
                                   ("dlaunch --nnodes 2 --max-r", "--max-restarts"), ("dlaunch --nnodes 2 -t 3 sleepin", None),
                                   ("dlaunch --nnodes=2 slee", "sleep"), ("dlaunch --nnodes=2 stat", "stat"), ("dlaunch --nproc_", "--nproc_per_node"),
                                   ("dlaunch --nnodes 2 ./train --nn", None)):
                done = subprocess.run(["fish", "-c", 'dlaunch completion fish | source; complete -C $argv[1]', line], env=environment,
                                      capture_output=True, text=True, timeout=PATIENCE, check=False)
                words = [one.split("\t")[0] for one in done.stdout.splitlines()]
                self.assertEqual(done.stderr, "", line)
                if proposed:
                    self.assertIn(proposed, words, line)
                else:
                    self.assertEqual(words, [], line)

    def zsh(self, begins, *lines):
        """Each line after its completion, in a terminal whose shell ran these commands first."""
        with tempfile.TemporaryDirectory() as folder:
            environment = {"HOME": folder, "TERM": "dumb", "PATH": f"{os.path.dirname(os.path.abspath(DLAUNCH))}:{os.environ['PATH']}"}
            with open(os.path.join(folder, "_dlaunch"), "w", encoding="utf-8") as script:
                script.write(self.run_command("completion", "zsh").stdout)
            # The key after a line shows its result, once the completion is over.
            with open(os.path.join(folder, ".zshrc"), "w", encoding="utf-8") as rc:
                rc.write(f"fpath=({folder} $fpath); autoload -U compinit; compinit -u -D; {begins}\n"
                         "tell() { print -r -- $BUFFER >> $HOME/lines; zle kill-buffer }; zle -N tell\n"
                         "bindkey '^I' expand-or-complete; bindkey '^T' tell\n: > $HOME/lines\n")
            controller, terminal = pty.openpty()
            shell = subprocess.Popen(["zsh", "-o", "noglobalrcs", "-i"], stdin=terminal, stdout=terminal, stderr=terminal, env=environment,
                                     start_new_session=True)
            os.close(terminal)
            try:
                return self.lines_told(controller, os.path.join(folder, "lines"), lines)
            finally:
                os.close(controller)
                shell.kill()
                shell.wait()

    def lines_told(self, controller, path, lines):
        os.write(controller, b"".join(line.encode() + b"\t\x14" for line in lines))
        deadline = time.monotonic() + PATIENCE
        shown = b""
        while True:
            with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as told:
                if len(found := told.read().splitlines()) == len(lines):
                    return found
            self.assertLess(time.monotonic(), deadline, shown)
            if select.select([controller], [], [], 0.1)[0]:
                shown += os.read(controller, 65536)

    def test_zsh_proposes_the_same(self):
        if not shutil.which("zsh"):
            self.skipTest("there is no zsh")
        self.start("sleep", "1000")
        self.status(lambda s: s["state"] == "running", "it runs")
        completed = {"dlaunch --nn": "dlaunch --nnodes=", "dlaunch --bind=nu": "dlaunch --bind=numa ", "dlaunch --bind nu": "dlaunch --bind numa ",
                     "dlaunch completio": "dlaunch completion ", "dlaunch --nnodes 2 completio": "dlaunch --nnodes 2 completio", "dlaunch --nproc_": "dlaunch --nproc-per-node=",
                     "dlaunch --nnodes 2 --max-r": "dlaunch --nnodes 2 --max-restarts=", "dlaunch logs --fol": "dlaunch logs --follow ",
                     "dlaunch doctor --pe": "dlaunch doctor --peer ", f"dlaunch stop {self.id[:9]}": f"dlaunch stop {self.id} ",
                     "dlaunch completion z": "dlaunch completion zsh ", "dlaunch --nnodes=2 ./train --nn": "dlaunch --nnodes=2 ./train --nn"}
        self.assertEqual(self.zsh("source <(dlaunch completion zsh)", *completed), list(completed.values()))
        # As installed: the shell loads the file at the first completion.
        self.assertEqual(self.zsh("", "dlaunch --nn"), ["dlaunch --nnodes="])

    def test_every_shell_understands_its_script(self):
        for shell in ("bash", "zsh", "fish"):
            done = self.run_command("completion", shell)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("nproc-per-node", done.stdout)
            if not shutil.which(shell):
                continue  # not every machine has all three
            with tempfile.NamedTemporaryFile("w", suffix=".script") as script:
                script.write(done.stdout)
                script.flush()
                checked = subprocess.run([shell, "-n", script.name], capture_output=True, text=True, timeout=PATIENCE, check=False)
                self.assertEqual((checked.returncode, checked.stderr), (0, ""), shell)
        self.assertEqual(self.run_command("completion", "tcsh").returncode, 2)
        self.assertEqual(self.run_command("completion").returncode, 2)


if __name__ == "__main__":
    main()

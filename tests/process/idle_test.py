#!/usr/bin/env python3
"""Jobs whose workers record nothing for dlaunch, and hang: the note that they may, their stacks, PyTorch's flight records.

    DLAUNCH_BIN_DIR=build/bin idle_test.py [Class.test ...]

Every wait is for an event and has a deadline.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import unittest
import uuid

from common import BIN, DLAUNCH, PATIENCE, TORCH_PYTHON, alive, environment, free_port, main, offers_torch, summary, torch_version, wait_until

FRTRACE = os.path.join(os.path.dirname(TORCH_PYTHON), "torchfrtrace")
RECORDS_GLOO = (2, 9)  # the first PyTorch that does
SERVES_GLOO = (2, 10)  # the first whose own server may have these records: 2.9's has those of NCCL only
MAY_HANG = r"the job may hang, or waits for something outside: no worker has used the CPU or printed anything for [\d.]+ m?s"
# Rank 1 does not come to the fourth collective.
GLOO = """
import time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
for _ in range(2):
    dist.all_reduce(torch.ones(4))
dist.barrier()

def forget_the_others():
    print("lost", flush=True)
    time.sleep(1000)

if dist.get_rank() == 1:
    forget_the_others()
dist.all_reduce(torch.ones(5))
"""
WITH_SERVER = """
from torch.distributed.elastic.control_plane import worker_main

@worker_main()
def run():
""" + "\n".join("    " + line for line in GLOO.splitlines()) + "\n\nrun()\n"


class Idle(unittest.TestCase):
    def setUp(self):
        self.id = f"idle-{uuid.uuid4().hex[:12]}"
        self.dir = tempfile.mkdtemp(prefix="dlaunch_idle_test.")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def start(self, *arguments, **variables):
        job = subprocess.Popen([DLAUNCH, f"--rdzv-id={self.id}", *arguments], stdin=subprocess.DEVNULL,
                               env={**environment(), "TMPDIR": self.dir, **variables}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
        self.addCleanup(self.finish, job)
        deadline = threading.Timer(PATIENCE, job.kill)
        deadline.start()
        self.addCleanup(deadline.cancel)
        return job

    @staticmethod
    def finish(job):
        if job.poll() is None:
            job.kill()
        job.communicate()

    def wait_for_line(self, job, pattern):
        """The lines until then."""
        lines = []
        while not lines or not re.search(pattern, lines[-1]):
            lines.append(job.stderr.readline())
            self.assertTrue(lines[-1], f"no line like {pattern}: {lines}")
        return lines

    def script(self, text, name="program.py"):
        path = os.path.join(self.dir, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path


class Note(Idle):
    def test_it_comes_by_itself_and_again_when_the_user_stops_the_job(self):
        job = self.start("--nproc-per-node=2", "--hang-note=1", f"--events={self.dir}/events", "sleep", "1000")
        self.wait_for_line(job, f"^dlaunch: {MAY_HANG}$")
        self.assertEqual(job.stderr.readline(), f"dlaunch: all stacks: dlaunch dump {self.id} on each host\n")
        self.assertIsNone(job.poll())
        job.terminate()
        err = job.communicate(timeout=PATIENCE)[1]
        self.assertRegex(err, rf"(?m)^dlaunch: {MAY_HANG}$")
        self.assertRegex(summary(err), r"^dlaunch: stopped: node 0 \(host \S+\) was stopped by SIGTERM$")
        with open(os.path.join(self.dir, "events"), encoding="utf-8") as file:
            stalls = [event for event in map(json.loads, file) if event["event"] == "stalled"]
        self.assertRegex(stalls[0]["text"], f"^{MAY_HANG}$")
        self.assertFalse([name for name in os.listdir(self.dir) if name.startswith("dlaunch-flight")], "there are no records")

    def test_a_worker_that_works_or_prints_is_not_idle(self):
        for busy in ("while :; do :; done", "while :; do echo line; sleep 0.2; done"):
            with self.subTest(busy):
                # The job ends by itself after twice the note's time.
                script = f'if [ $RANK = 0 ]; then ({busy}) & sleep 6; kill $!; exit 0; else sleep 6; fi'
                job = self.start("--nproc-per-node=2", "--hang-note=3", "sh", "-c", script)
                out, err = job.communicate(timeout=PATIENCE)
                self.assertEqual(job.returncode, 0, out + err)
                self.assertNotIn("may hang", err)

    def test_no_note_is_wanted(self):
        job = self.start("--nproc-per-node=2", "--hang-note=0", "sleep", "3")
        self.assertEqual(job.communicate(timeout=PATIENCE)[1], "")

    def test_a_node_that_works_is_enough(self):
        port = free_port()
        script = 'if [ $RANK = 0 ]; then echo first; i=0; while [ $i -lt 30 ]; do sleep 0.2; i=$((i + 1)); echo $i; done; else sleep 6; fi'
        jobs = [self.start("--nnodes=2", f"--node-rank={rank}", "--nproc-per-node=1", "--master-addr=127.0.0.1", f"--master-port={port}",
                           "--hang-note=3", "sh", "-c", script) for rank in range(2)]
        for job in jobs:
            out, err = job.communicate(timeout=PATIENCE)
            self.assertEqual(job.returncode, 0, out + err)
            self.assertNotIn("may hang", err)


class Stacks(Idle):
    def test_those_of_a_few_ranks_follow(self):
        tools = os.path.join(self.dir, "bin")
        os.mkdir(tools)
        # The real ones need rights that a container may not give; debuggers are started and read as they are.
        with open(os.path.join(tools, "gdb"), "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\necho "Thread 1 (LWP 1):"\necho "#0  0x00007f in clock_nanosleep () from libc.so"\n'
                       'echo "#1  0x0000 in main ()"\n')
        os.chmod(os.path.join(tools, "gdb"), 0o755)
        job = self.start("--nproc-per-node=4", "--hang-note=1", "sleep", "1000", PATH=f"{tools}:{os.environ['PATH']}")
        self.wait_for_line(job, r"^dlaunch: ranks 0, 1 and 2 are in clock_nanosleep < main, by gdb$")

    def test_without_a_debugger_the_kernel_says_where_they_are(self):
        sleep = shutil.which("sleep")
        job = self.start("--nproc-per-node=2", "--hang-note=1", sleep, "1000", PATH=self.dir)
        self.wait_for_line(job, r"^dlaunch: ranks 0 and 1: sleeps in the kernel")
        self.wait_for_line(job, r"^dlaunch: no stacks: gdb is not installed")

    def test_a_debugger_that_hangs_holds_nobody(self):
        tools = os.path.join(self.dir, "bin")
        os.mkdir(tools)
        with open(os.path.join(tools, "gdb"), "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\necho $$ > {self.dir}/gdb.pid\nexec sleep 1000\n")
        os.chmod(os.path.join(tools, "gdb"), 0o755)
        job = self.start("--nproc-per-node=1", "--hang-note=1", "sleep", "1000", PATH=f"{tools}:{os.environ['PATH']}")
        self.wait_for_line(job, r"^dlaunch: rank 0: sleeps in the kernel")
        with open(os.path.join(self.dir, "gdb.pid"), encoding="utf-8") as file:
            self.assertFalse(alive(file.read().strip()), "it has been ended")
        self.assertIsNone(job.poll())

    def test_a_job_that_is_stopped_meanwhile_ends_the_debugger(self):
        tools = os.path.join(self.dir, "bin")
        os.mkdir(tools)
        fifo = os.path.join(self.dir, "started")
        os.mkfifo(fifo)
        with open(os.path.join(tools, "gdb"), "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\necho $$ > {fifo}\nexec sleep 1000\n")
        os.chmod(os.path.join(tools, "gdb"), 0o755)
        job = self.start("--nproc-per-node=1", "--hang-note=1", "sleep", "1000", PATH=f"{tools}:{os.environ['PATH']}")
        with open(fifo, encoding="utf-8") as file:
            debugger = file.read().strip()
        job.terminate()
        job.communicate(timeout=PATIENCE)
        wait_until(lambda: not alive(debugger), "the debugger ends")


class Torch(Idle):
    def hang(self, script, *flags, ranks=2, **variables):
        return self.start(f"--nproc-per-node={ranks}", "--hang-note=2", *flags, "--no-python", TORCH_PYTHON, self.script(script), **variables)

    def package(self):
        return {"PYTHONPATH": os.path.join(os.path.dirname(BIN), "python"), "PYTHONWARNINGS": "ignore"}

    def has_records(self, oldest):
        return offers_torch(self, oldest, "has no records of gloo")

    def expect_records(self, job, ranks):
        """The folder, after the user has stopped the job."""
        others = "the other one has" if ranks == 2 else f"the other {ranks - 1} have"
        by_records = rf"dlaunch: by PyTorch's records rank 1 \(local rank 1, node 0, host \S+\) never entered all_reduce #4 of group default_pg; {others} waited [\d.]+ m?s"
        lines = self.wait_for_line(job, f"^{by_records}$")
        job.terminate()
        err = job.communicate(timeout=PATIENCE)[1]
        self.assertRegex(err, f"(?m)^{by_records}$", "again at the end")
        folder = re.search(r"(?m)^dlaunch: PyTorch's flight records of this node are in (\S+); compare them with: torchfrtrace \1$", err)
        self.assertTrue(folder, "".join(lines) + err)
        self.assertEqual(sorted(os.listdir(folder[1])), [f"flight_rank_{rank}" for rank in range(ranks)])
        known = subprocess.run([TORCH_PYTHON, "-c", "import torch.distributed.flight_recorder"], capture_output=True, check=False)
        if known.returncode != 0:  # the torchfrtrace of such a wheel cannot import what it starts
            return folder[1]
        compared = subprocess.run([FRTRACE, folder[1]], capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(compared.returncode, 0, compared.stderr)
        self.assertRegex(compared.stdout + compared.stderr, r"collective: gloo:all_reduce\s+missing ranks: \{1\}")
        return folder[1]

    def test_pytorch_program_that_hangs_names_the_missing_rank(self):
        if not self.has_records(RECORDS_GLOO):
            return
        folder = self.expect_records(self.hang(GLOO, **self.package()), 2)
        self.assertTrue(folder.startswith(self.dir + "/dlaunch-flight-"), folder)

    def test_pytorch_program_of_four_ranks_leaves_its_records_with_its_logs(self):
        if not self.has_records(RECORDS_GLOO):
            return
        logs = os.path.join(self.dir, "logs")
        folder = self.expect_records(self.hang(GLOO, f"--log-dir={logs}", "--redirects=3", ranks=4, **self.package()), 4)
        self.assertTrue(folder.startswith(logs + "/"), folder)

    def test_pytorch_program_with_a_server_of_its_own_needs_no_package(self):
        if self.has_records(SERVES_GLOO):
            self.expect_records(self.hang(WITH_SERVER), 2)

    def test_pytorch_of_any_version_is_unharmed_and_has_stacks(self):
        if torch_version() is None:
            self.skipTest(f"{TORCH_PYTHON} has no PyTorch")
        job = self.hang(GLOO)
        self.wait_for_line(job, f"^dlaunch: {MAY_HANG}$")
        # The kernel's word for it, if the machine is too busy for a debugger.
        self.wait_for_line(job, r"^dlaunch: ranks? \d.*(is in|are in|sleeps in the kernel|is running)")
        self.assertIsNone(job.poll())
        job.terminate()
        err = job.communicate(timeout=PATIENCE)[1]
        self.assertRegex(summary(err), r"^dlaunch: stopped: node 0 \(host \S+\) was stopped by SIGTERM$")


class Dumped(Idle):
    def test_what_pytorch_writes_by_itself_is_kept(self):
        script = 'echo record > "${TORCH_FR_DUMP_TEMP_FILE}$RANK"; exit 3'
        job = self.start("--nproc-per-node=1", "sh", "-c", script)
        err = job.communicate(timeout=PATIENCE)[1]
        folder = re.search(r"PyTorch's flight records of this node are in (\S+); compare", err)
        self.assertTrue(folder, err)
        with open(os.path.join(folder[1], "flight_rank_0"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "record\n")
        self.assertEqual(os.stat(folder[1]).st_mode & 0o077, 0, "it is the user's alone")

    def test_nothing_is_left_if_it_writes_nothing(self):
        job = self.start("--nproc-per-node=1", "sh", "-c", "exit 3")
        self.assertNotIn("flight", job.communicate(timeout=PATIENCE)[1])
        self.assertEqual([name for name in os.listdir(self.dir) if "flight" in name], [])


if __name__ == "__main__":
    main()

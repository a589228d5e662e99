#!/usr/bin/env python3
"""Command lines written for torchrun: what its newer versions accept, and what its workers find.

    DLAUNCH_BIN_DIR=build/bin drop_in_test.py [Class.test ...]
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from common import DLAUNCH, PATIENCE, TORCH_PYTHON, environment, free_port, main, torchrun


class DropIn(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="dlaunch_drop_in_test.")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.dir, name)

    def run_job(self, *arguments, dlaunch=DLAUNCH, close_fds=True, **variables):
        own = {key: value for key, value in environment().items() if key not in ("VIRTUAL_ENV", "PYTHON_EXEC")}
        return subprocess.run([dlaunch, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=self.dir,
                              env={**own, **variables}, timeout=PATIENCE, check=False, close_fds=close_fds)

    def out(self, *arguments, **how):
        done = self.run_job(*arguments, **how)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout


class Flags(DropIn):
    def test_the_prefix_by_its_variable_and_macro(self):
        self.assertEqual(self.out("--local-addr=127.0.0.1", "echo", "out", PET_LOG_LINE_PREFIX_TEMPLATE="<${rank} ${hostname}>"), "<0 127.0.0.1>out\n")

    def test_an_ipv6_address_in_brackets(self):
        show = ["sh", "-c", "echo $MASTER_ADDR $MASTER_PORT"]
        port = free_port()
        done = self.run_job("--master-addr=[::1]", f"--master-port={port}", *show)
        if "Cannot assign requested address" in done.stderr or "not supported" in done.stderr:
            self.skipTest("no IPv6 here")
        self.assertEqual((done.returncode, done.stdout), (0, f"::1 {port}\n"), done.stderr)

    def test_a_completion_script(self):
        for shell in ("bash", "zsh", "fish"):
            self.assertEqual(self.out("--print-completion", shell), self.out("completion", shell))
        done = self.run_job("--print-completion=tcsh")
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (2, "", "dlaunch: no completion script for the shell 'tcsh'; choose bash, zsh or fish\n"))

    def test_both_variables_of_rocm(self):
        shown = self.out("--nproc-per-node=2", "--virtual-local-rank", "sh", "-c", "echo $RANK $CUDA_VISIBLE_DEVICES $HIP_VISIBLE_DEVICES",
                         HIP_VISIBLE_DEVICES="3,5", CUDA_VISIBLE_DEVICES="0,1")
        self.assertEqual(sorted(shown.splitlines()), ["0 3 3", "1 5 5"])


class Workers(DropIn):
    def test_a_standalone_job_has_an_id_of_its_own(self):
        show = ["sh", "-c", "echo $TORCHELASTIC_RUN_ID"]
        ids = {self.out(*show) for _ in range(3)}
        self.assertEqual(len(ids), 3, ids)
        self.assertEqual(self.out(f"--master-port={free_port()}", *show), "none\n")
        self.assertEqual(self.out("--rdzv-id=mine", *show), "mine\n")

    def test_descriptors_of_the_caller_are_closed(self):
        reader, writer = os.pipe()
        for end in (reader, writer):
            os.set_inheritable(end, True)
            self.addCleanup(os.close, end)
        listed = self.out("sh", "-c", "ls /proc/$$/fd", close_fds=False).split()
        self.assertLessEqual({"0", "1", "2"}, set(listed))
        self.assertNotIn(str(reader), listed)
        self.assertNotIn(str(writer), listed)

    def test_a_descriptor_that_an_argument_names_is_passed_on(self):
        done = subprocess.run(["bash", "-c", f"{DLAUNCH} cat <(echo from a substitution)"], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, env=environment(), timeout=PATIENCE, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "from a substitution\n"), done.stderr)

    def interpreter(self, name):
        """A python3 in a folder bin, which prints its own path."""
        os.makedirs(self.path(f"{name}/bin"))
        program = self.path(f"{name}/bin/python3")
        with open(program, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\necho {name} $1 $2\n")
        os.chmod(program, 0o755)
        return self.path(name)

    def test_the_virtual_environments_python(self):
        with open(self.path("train.py"), "w", encoding="utf-8"):
            pass
        active, installed = self.interpreter("active"), self.interpreter("installed")
        with open(os.path.join(installed, "pyvenv.cfg"), "w", encoding="utf-8"):
            pass
        own = os.path.join(installed, "bin", "dlaunch")
        os.symlink(DLAUNCH, own)
        self.assertEqual(self.out("train.py", VIRTUAL_ENV=active), "active -u train.py\n")
        self.assertEqual(self.out("train.py", dlaunch=own), "installed -u train.py\n")
        self.assertEqual(self.out("train.py", dlaunch="dlaunch", PATH=f"{installed}/bin:{os.environ['PATH']}"), "installed -u train.py\n")
        self.assertEqual(self.out("-m", "train", dlaunch=own, VIRTUAL_ENV=active), "active -u -m\n")
        self.assertEqual(self.out("train.py", VIRTUAL_ENV=active, PYTHON_EXEC="echo"), "-u train.py\n")


class Events(DropIn):
    FIELDS = {"run_id", "global_rank", "group_rank", "worker_id", "role", "hostname", "state", "total_run_time", "rdzv_backend", "raw_error",
              "metadata", "agent_restarts", "duration_ms"}

    def events(self):
        done = self.run_job("--nproc-per-node=2", "--role=trainer", "--max-restarts=1", "--events=events.json", "--events-format=torchelastic",
                            "sh", "-c", "test $RANK = 0 || exit $((3 - 3 * TORCHELASTIC_RESTART_COUNT)); exec sleep 0.$((1 - TORCHELASTIC_RESTART_COUNT))")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("events.json"), encoding="utf-8") as file:
            return file.read().splitlines()

    def test_have_torchelastics_fields(self):
        events = [json.loads(line) for line in self.events()]
        of_workers = [event for event in events if event.get("source") == "WORKER"]
        self.assertEqual([event["metadata"]["state"] for event in of_workers].count("START"), 4)
        failed = next(event for event in of_workers if event["name"] == "torchelastic.worker.status.FAILED")
        self.assertEqual(set(failed["metadata"]), self.FIELDS)
        self.assertEqual((failed["metadata"]["global_rank"], failed["metadata"]["role"]), (1, "trainer"))
        self.assertEqual(json.loads(failed["metadata"]["raw_error"]), {"message": "exited with code 3"})
        inner = json.loads(failed["metadata"]["metadata"])
        self.assertEqual((inner["group_world_size"], inner["local_rank"], inner["role_world_size"]), (1, [1], [2]))
        last = events[-1]
        self.assertEqual((last["name"], last["source"]), ("torchelastic.worker.status.SUCCEEDED", "AGENT"))

    def test_pytorch_reads_them(self):
        read = ("import sys\nfrom torch.distributed.elastic.events.api import Event, RdzvEvent\n"
                "for line in open(sys.argv[1]):\n"
                "    one = (RdzvEvent if 'node_state' in line else Event).deserialize(line)\n"
                "    print(type(one).__name__, one.name)\n")
        if subprocess.run([TORCH_PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode != 0:
            self.skipTest(f"{TORCH_PYTHON} has no torch")
        lines = self.events()
        done = subprocess.run([TORCH_PYTHON, "-c", read, self.path("events.json")], capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), len(lines))
        self.assertIn("RdzvEvent world\n", done.stdout)
        self.assertIn("Event torchelastic.worker.status.SUCCEEDED\n", done.stdout)


class Rendezvous(DropIn):
    def test_pytorchs_torchrun_that_comes_while_workers_run_is_refused_and_named(self):
        """It would find the workers' store behind the port, and run a world of its own."""
        program = torchrun()
        if not program:
            self.skipTest("no torchrun here")
        port = free_port()
        both = ["--nnodes=1:2", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=m"]
        job = subprocess.Popen([DLAUNCH, *both, "--last-call-timeout=0", "sh", "-c", "echo up; exec sleep 1000"], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
        self.addCleanup(job.kill)
        self.assertEqual(job.stdout.readline(), "up\n")
        their = [re.sub(r"^--[a-z-]+", lambda name: "--" + name.group()[2:].replace("-", "_"), option) for option in both]  # 1.13's spelling
        other = subprocess.run([program, *their, "--rdzv_conf=is_host=0,last_call_timeout=1,join_timeout=20", "--no_python", "sh", "-c", "echo a world of $WORLD_SIZE"],
                               env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertNotEqual(other.returncode, 0)
        self.assertNotIn("a world of", other.stdout)
        job.terminate()
        err = job.communicate(timeout=PATIENCE)[1]
        self.assertRegex(err, r"rejected 127\.0\.0\.1:\d+: torchrun cannot join a dlaunch job: start dlaunch on that node")


if __name__ == "__main__":
    main()

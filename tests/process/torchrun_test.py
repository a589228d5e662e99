#!/usr/bin/env python3
"""dlaunch beside torchrun: workers get the same from both, and neither joins the other's job.

    DLAUNCH_BIN_DIR=build/bin torchrun_test.py [Class.test ...]

Every wait is for an event and has a deadline.
"""

import os
import re
import signal
import socket
import subprocess
import sys

from common import BIN, DLAUNCH, PATIENCE, TORCH_PYTHON, environment, free_port, main, remedy, summary, torchrun, wait_until
from launch_case import Launch

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
            # PyTorch 2.15 aborts now and then at the end of a process whose group was not destroyed.
            programs.append([PYTHON, "-c", "import torch, torch.distributed as d; d.init_process_group('gloo'); t = torch.ones(1); "
                             "d.all_reduce(t); print('sum of ones =', int(t)); d.destroy_process_group()"])
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
            self.assertRegex(summary(done.stderr), rf"^dlaunch: failed: found no node 0 at 127\.0\.0\.1:{port}: ")
            self.assertRegex(remedy(done.stderr), rf"^check that dlaunch runs as node 0 .*torchrun cannot join.*dlaunch doctor --peer=127\.0\.0\.1:{port}$")

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


if __name__ == "__main__":
    main()

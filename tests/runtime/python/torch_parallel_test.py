#!/usr/bin/env python3
"""PyTorch's ways to train in parallel over backend dlaunch: results as with gloo."""

import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../process"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from common import DLAUNCH, PATIENCE, TORCH_PYTHON, main, torch_version  # noqa: E402
from torch_test import missing, variables  # noqa: E402

RANKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_parallel_ranks.py")


class Parallel(unittest.TestCase):
    def expect_as_with_gloo(self, scenario):
        if why := missing():
            self.skipTest(why)
        with tempfile.TemporaryDirectory() as folder:
            for ranks in (2, 3):
                job = subprocess.run([DLAUNCH, f"--nproc-per-node={ranks}", "--no-python", TORCH_PYTHON, RANKS, scenario,
                                      os.path.join(folder, str(ranks))], capture_output=True, text=True, timeout=2 * PATIENCE, check=False,
                                     env=variables(OMP_NUM_THREADS="1"))
                self.assertEqual(job.returncode, 0, job.stdout + job.stderr)
                self.assertEqual(job.stdout.count(f": {scenario} as with gloo, "), ranks, job.stdout)

    def test_pytorch_fully_sharded_training(self):
        self.expect_as_with_gloo("fsdp2")

    def test_pytorch_sharded_tensors(self):
        self.expect_as_with_gloo("dtensor")

    def test_pytorch_checkpoints_of_sharded_training(self):
        self.expect_as_with_gloo("checkpoint")

    def test_pytorch_pipelines(self):
        # The ranks of PyTorch 2.9 begin with messages in different orders, which no backend for CPUs can match: its gloo ends the process.
        found = torch_version()
        if found is not None and found < (2, 10):
            return
        self.expect_as_with_gloo("pipelining")

    def test_pytorch_ranks_with_more_batches_than_others(self):
        self.expect_as_with_gloo("join")

    def test_pytorch_an_optimizer_whose_state_is_sharded(self):
        self.expect_as_with_gloo("zero")


if __name__ == "__main__":
    main()

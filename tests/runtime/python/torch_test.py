#!/usr/bin/env python3
"""Backend dlaunch in PyTorch: every call beside gloo's, training, the death of a rank, and groups that are made again."""

import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../process"))
from common import BIN, DLAUNCH, PATIENCE, TORCH_PYTHON, environment, free_port, main  # noqa: E402

RANKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_ranks.py")
PACKAGE = os.path.join(os.path.dirname(BIN), "python")
OLDEST = (2, 14)


def missing():
    """Why there is no PyTorch that can have the backend, or None."""
    asked = subprocess.run([TORCH_PYTHON, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True,
                           check=False)
    if asked.returncode:
        return f"{TORCH_PYTHON} has no PyTorch"
    version = asked.stdout.strip()
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        return f"PyTorch {version} of {TORCH_PYTHON} is older than {OLDEST[0]}.{OLDEST[1]}, the first that finds the backend"
    return None


def variables(**more):
    return {**environment(), "PYTHONPATH": PACKAGE, "PYTHONWARNINGS": "ignore", **more}


class Torch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if why := missing():
            raise unittest.SkipTest(why)

    def launch(self, ranks, *arguments, flags=(), **more):
        """The job's stdout. It must succeed."""
        job = subprocess.run([DLAUNCH, f"--nproc-per-node={ranks}", *flags, "--no-python", TORCH_PYTHON, RANKS, *arguments],
                             capture_output=True, text=True, timeout=2 * PATIENCE, check=False, env=variables(**more))
        self.assertEqual(job.returncode, 0, job.stdout + job.stderr)
        return job.stdout

    def test_each_call_of_two_ranks_gives_what_gloo_gives(self):
        self.assertEqual(self.launch(2, "compare").count("compared"), 2)

    def test_each_call_of_three_ranks_gives_what_gloo_gives(self):
        self.assertEqual(self.launch(3, "compare").count("compared"), 3)

    def test_the_losses_of_data_parallel_training_are_gloos(self):
        self.assertEqual(self.launch(2, "ddp").count("losses agree"), 2)

    def test_a_group_can_be_made_again_and_of_another_store(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.launch(2, "again", os.path.join(folder, "store")).count("again"), 2)

    def test_a_killed_rank_is_named_by_all_others(self):
        # Without a launcher, which would stop the others, and with PyTorch's own store.
        port = str(free_port())
        ranks = [subprocess.Popen([TORCH_PYTHON, RANKS, "killed"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  env=variables(RANK=str(rank), WORLD_SIZE="3", MASTER_ADDR="127.0.0.1", MASTER_PORT=port))
                 for rank in range(3)]
        try:
            outputs = [rank.communicate(timeout=PATIENCE)[0] for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
        self.assertEqual(ranks[1].returncode, -9, outputs[1])
        for number in (0, 2):
            self.assertEqual(ranks[number].returncode, 0, outputs[number])
            self.assertIn(f"rank {number} again: ", outputs[number])
            self.assertIn(f"rank {number} has seen it", outputs[number])


if __name__ == "__main__":
    main()

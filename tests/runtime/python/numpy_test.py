#!/usr/bin/env python3
"""dlaunch.numpy: collectives on numpy arrays, in workers of dlaunch."""

import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../process"))
from common import BIN, DLAUNCH, PATIENCE, TORCH_PYTHON, environment, main  # noqa: E402

RANKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "numpy_ranks.py")
PACKAGE = os.path.join(os.path.dirname(BIN), "python")


class Numpy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if subprocess.run([TORCH_PYTHON, "-c", "import numpy"], capture_output=True, check=False).returncode:
            raise unittest.SkipTest(f"{TORCH_PYTHON} has no numpy (Debian: python3-numpy)")

    def launch(self, ranks, *arguments):
        """The job's stdout. It must succeed."""
        job = subprocess.run([DLAUNCH, f"--nproc-per-node={ranks}", "--no-python", TORCH_PYTHON, RANKS, *arguments], capture_output=True,
                             text=True, timeout=PATIENCE, check=False,
                             env={**environment(), "PYTHONPATH": PACKAGE})
        self.assertEqual(job.returncode, 0, job.stdout + job.stderr)
        return job.stdout

    def test_each_call_of_two_ranks(self):
        self.assertEqual(self.launch(2, "calls").count("called"), 2)

    def test_each_call_of_three_ranks(self):
        self.assertEqual(self.launch(3, "calls").count("called"), 3)

    def test_a_rank_that_does_not_come_is_named(self):
        printed = self.launch(2, "missing")
        self.assertRegex(printed, r"(?m)^rank 0, peer 1: rank 0, all_reduce #1 of group default, peer 1 on ")


if __name__ == "__main__":
    main()

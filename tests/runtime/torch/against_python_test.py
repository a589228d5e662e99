#!/usr/bin/env python3
"""A LibTorch program with our DistributedDataParallel trains as Python's does: real processes under dlaunch, on the same data
and from the same parameters.

    DLAUNCH_BIN_DIR=build/bin against_python_test.py
"""

import os
import subprocess
import sys
import unittest

BIN = os.environ["DLAUNCH_BIN_DIR"]
HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(os.path.dirname(BIN), "tests", "train_small_net")
SCRIPT = os.path.join(HERE, "train_small_net.py")
PYTHON = os.environ.get("DLAUNCH_TORCH_PYTHON") or "/usr/bin/python3"
STEPS = 20


def numbers_of(*command, ranks=2):
    """What rank 0 of the job prints."""
    launch = [os.path.join(BIN, "dlaunch"), f"--nproc-per-node={ranks}"] if ranks > 1 else []
    done = subprocess.run([*launch, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return [float(line) for line in done.stdout.splitlines() if not line.startswith("[Gloo]")]  # PyTorch 2.9's gloo writes there


class AgainstPython(unittest.TestCase):
    def expect_close(self, ours, theirs):
        self.assertEqual(len(ours), STEPS + 6)
        self.assertEqual(len(ours), len(theirs))
        for place, (own, other) in enumerate(zip(ours, theirs)):
            self.assertAlmostEqual(own, other, delta=1e-5 * max(1, abs(other)), msg=f"number {place}")

    def test_two_ranks_train_as_pythons_do(self):
        theirs = numbers_of(PYTHON, SCRIPT, str(STEPS))
        for form in ("views", "copies"):
            with self.subTest(form):
                self.expect_close(numbers_of(PROGRAM, str(STEPS), form), theirs)

    def test_four_ranks_train_as_one_process_with_the_whole_batch(self):
        ours = numbers_of(PROGRAM, str(STEPS), "views", ranks=4)
        alone = numbers_of(PYTHON, SCRIPT, str(STEPS), ranks=1)
        # Rank 0's loss is of its part; the parameters are the same.
        self.assertEqual(len(ours), len(alone))
        self.expect_close(alone[:STEPS] + ours[STEPS:], alone)


if __name__ == "__main__":
    sys.exit(unittest.main())

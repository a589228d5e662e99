#!/usr/bin/env python3
"""PyTorch's own suite of torch.distributed: each test ends with backend dlaunch as it ends with gloo, or the table says why not.

    DLAUNCH_BIN_DIR=build/bin torch_suite_test.py

The suite's tests ask for the backend by name, and skip or expect errors by it. So dlaunch runs as in `dlaunch --accelerate=gloo`:
in place of the backend of that name, with every test that gloo has; the one in Python, and the one in C++. Before PyTorch 2.14,
which cannot do that, the suite's program exchanges the name.
"""

import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../process"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from common import TORCH_PYTHON, main  # noqa: E402
import torch_test  # noqa: E402
from torch_test import REPLACES_GLOO, missing, variables  # noqa: E402

SUITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_suite.py")
LIMIT = 1500  # seconds for the whole suite with one backend
# Tests that fail, though they pass with gloo: why that is right.
_NAMES_MISSING = "the error of a deadline names the ranks that have not come, and has not gloo's words"
_NAMES_EVERYWHERE = "each rank's error names the rank that has not come; with gloo only that of rank 0 does"
DIFFERENCES = {
    "test_barrier_timeout_full_group": _NAMES_MISSING,
    "test_barrier_timeout_global": _NAMES_MISSING,
    "test_ddp_logging_data_cpu": "DDP logs the backend's own name, which is dlaunch",
    "test_monitored_barrier_gloo": _NAMES_EVERYWHERE,
    "test_monitored_barrier_gloo_rank_0_timeout": "the error names the rank that has not come, and not rank 0",
}


def outcomes(**more):
    """How each test has ended, and the reason, by its name."""
    run = subprocess.run([TORCH_PYTHON, SUITE], capture_output=True, text=True, timeout=LIMIT, check=False,
                         env=variables(BACKEND="gloo", **more))
    found = {}
    for line in run.stdout.splitlines():
        outcome, _, rest = line.partition(" ")
        name, _, reason = rest.partition(" ")
        if outcome in ("passed", "skipped", "failed"):  # not a line that PyTorch prints
            found[name] = (outcome, reason)
    return found, run.stderr


class Suite(unittest.TestCase):
    def test_pytorch_each_test_of_its_suite_ends_as_with_gloo(self):
        if why := missing():
            self.skipTest(why)
        if subprocess.run([TORCH_PYTHON, "-c", "import expecttest, numpy"], capture_output=True, check=False).returncode:
            self.skipTest(f"{TORCH_PYTHON} has no expecttest, which PyTorch's suite needs (pip install expecttest)")
        gloo, problems = outcomes()
        self.assertGreater(sum(outcome == "passed" for outcome, _ in gloo.values()), 80, problems[-4000:])
        self.compare(gloo)
        built = torch_test.Native.build(**torch_test.Native.own)
        self.assertEqual(built.returncode, 0, built.stdout + built.stderr)
        self.compare(gloo, **torch_test.Native.own)

    def compare(self, gloo, **more):
        if missing(REPLACES_GLOO):
            ours, _ = outcomes(DLAUNCH_SUITE="in place of gloo", **more)
        else:
            ours, problems = outcomes(DLAUNCH_ACCELERATE="gloo", **more)
            self.assertIn("backend gloo is dlaunch's (--accelerate=gloo)", problems)
        differences = {name: (outcome, reason) for name, (outcome, reason) in ours.items() if outcome != gloo[name][0]}
        self.assertEqual(set(ours), set(gloo))
        new = {name: found for name, found in differences.items() if name not in DIFFERENCES}
        self.assertEqual(new, {}, "tests end otherwise than with gloo: mend that, or give the reason in DIFFERENCES")
        self.assertEqual([name for name in DIFFERENCES if name not in differences], [], "no differences any more: remove them from DIFFERENCES")


if __name__ == "__main__":
    main()

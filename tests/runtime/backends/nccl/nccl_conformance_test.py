#!/usr/bin/env python3
"""The backend nccl on the doubles of CUDA's runtime and NCCL: the table of the conformance test, against our backend gloo.

    DLAUNCH_BIN_DIR=build/bin nccl_conformance_test.py [Class.test ...]
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "api"))
from conformance_test import compare_with_gloo  # noqa: E402

BUILD = os.path.dirname(os.path.abspath(os.environ["DLAUNCH_BIN_DIR"]))



def run_side(test, directory, program, size, **environment):
    path = os.path.join(directory, program)
    os.mkdir(path)
    done = subprocess.run([os.path.join(BUILD, "tests", program), path, str(size)], capture_output=True, text=True, timeout=250,
                          check=False, env=os.environ | environment)
    if missing := re.search("'nccl' cannot be used: (.*); its cell", done.stderr):
        test.skipTest(missing.group(1))
    test.assertEqual(done.returncode, 0, done.stdout + done.stderr)
    test.assertNotIn("double:", done.stderr)
    return path


class Conformance(unittest.TestCase):
    def compare(self, size, **environment):
        with tempfile.TemporaryDirectory(prefix="dlaunch_nccl.") as directory:
            over_nccl = run_side(self, directory, "conformance_nccl_ranks", size, **environment)
            compare_with_gloo(self, over_nccl, run_side(self, directory, "conformance_ranks", size), size, 500)

    def compare_on_doubles(self, size):
        self.compare(size, LD_LIBRARY_PATH=os.path.join(BUILD, "tests", "doubles"), CUDA_DOUBLE_SEED=str(size))

    def test_world_of_1(self):
        self.compare_on_doubles(1)

    def test_world_of_2(self):
        self.compare_on_doubles(2)

    def test_world_of_3(self):
        self.compare_on_doubles(3)

    def test_one_rank_on_a_gpu(self):
        """The same on the real libraries, where there is a GPU; the double has none here."""
        libraries = os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "lib64")
        self.compare(1, LD_LIBRARY_PATH=libraries, CUDA_DOUBLE_DEVICES="0")


if __name__ == "__main__":
    program = unittest.main(exit=False)
    if not program.result.wasSuccessful():
        sys.exit(1)
    if program.result.skipped and len(program.result.skipped) == program.result.testsRun:
        sys.exit(77)  # CTest's "skipped"

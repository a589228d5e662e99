#!/usr/bin/env python3
"""The same cases on our runtime and on PyTorch's gloo: function x dtype x reduction x world size x length.

    DLAUNCH_BIN_DIR=build/bin conformance_test.py [Class.test ...]

Whole numbers must be equal bit for bit, floating point values within one rounding for each rank.
"""

import array
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.dirname(os.path.abspath(os.environ["DLAUNCH_BIN_DIR"]))
HERE = os.path.dirname(os.path.abspath(__file__))
# Digits of the fraction.
PRECISION = {"float16": 10, "float32": 23, "float64": 52}
FORMAT = {"float16": "e", "float32": "f", "float64": "d"}


def python_with_torch():
    for python in (os.environ.get("PYTHON_EXEC"), sys.executable, "/usr/bin/python3"):
        if python and subprocess.run([python, "-c", "import torch.distributed as d; assert d.is_available()"],
                                     capture_output=True, check=False).returncode == 0:
            return python
    return None


def records(path):
    found = {}
    with open(path, "rb") as file:
        while name := file.readline():
            length = int(file.readline())
            found[name.decode().strip()] = file.read(length)
    return found


def numbers(data, dtype):
    if dtype == "float16":
        return [value for value, in struct.iter_unpack("<e", data)]
    values = array.array(FORMAT[dtype])
    values.frombytes(data)
    return values


class Conformance(unittest.TestCase):
    def setUp(self):
        self.python = python_with_torch()
        if self.python is None:
            self.skipTest("no python3 here has PyTorch (Debian: python3-torch)")
        self.dir = tempfile.mkdtemp(prefix="dlaunch_conformance.")
        self.addCleanup(shutil.rmtree, self.dir)

    def run_side(self, name, *command):
        directory = os.path.join(self.dir, name)
        os.mkdir(directory)
        done = subprocess.run([command[0], *command[1:-1], directory, command[-1]], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return directory

    def close_enough(self, ours, theirs, dtype, roundings):
        """Equal, or apart by no more than so many halves of a unit in the last place, on each side."""
        allowed = 2 * roundings * 2.0 ** -(PRECISION[dtype] + 1)
        return all(a == b or abs(a - b) <= allowed * max(abs(a), abs(b))
                   for a, b in zip(numbers(ours, dtype), numbers(theirs, dtype)))

    def compare(self, size):
        ours = self.run_side("ours", os.path.join(BUILD, "tests", "conformance_ranks"), str(size))
        theirs = self.run_side("theirs", self.python, os.path.join(HERE, "conformance_torch.py"), str(size))
        compared = set()
        for rank in range(size):
            mine = records(os.path.join(ours, f"rank{rank}"))
            for name, wanted in records(os.path.join(theirs, f"rank{rank}")).items():
                self.assertIn(name, mine)
                compared.add(name.split()[0])
                if mine[name] == wanted:
                    continue
                dtype = name.split()[1]
                self.assertEqual(len(mine[name]), len(wanted), f"rank {rank}: {name}")
                self.assertIn(dtype, PRECISION, f"rank {rank}: {name}: whole numbers differ")
                self.assertTrue(self.close_enough(mine[name], wanted, dtype, size), f"rank {rank}: {name}")
        expected = {"all_reduce/" + op for op in
                    ("sum", "product", "min", "max", "band", "bor", "bxor", "sum-of-thirds")}
        expected |= {"reduce", "broadcast", "all_gather", "gather", "scatter"}
        self.assertLessEqual(expected, compared)

    def test_world_size_1(self):
        self.compare(1)

    def test_world_size_2(self):
        self.compare(2)

    def test_world_size_3(self):
        self.compare(3)

    def test_world_size_4(self):
        self.compare(4)

    def test_world_size_5(self):
        self.compare(5)

    def test_world_size_8(self):
        self.compare(8)


if __name__ == "__main__":
    program = unittest.main(exit=False)
    if not program.result.wasSuccessful():
        sys.exit(1)
    if program.result.skipped and len(program.result.skipped) == program.result.testsRun:
        sys.exit(77)  # CTest's "skipped"

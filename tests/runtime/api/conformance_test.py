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

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "process"))
from hosts import Hosts  # noqa: E402

BUILD = os.path.dirname(os.path.abspath(os.environ["DLAUNCH_BIN_DIR"]))
WHOLE = ("int8", "uint8", "int32", "int64")
REAL = ("float16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
ALL = WHOLE + REAL + COMPLEX + ("int16", "bool", "bfloat16")
FEW_RANKS, LONG_COUNT = 3, 300007
# How array and struct call what a value consists of.
FORMAT = {"int8": "b", "uint8": "B", "int16": "h", "int32": "i", "int64": "q", "bool": "B", "float16": "e", "bfloat16": "H",
          "float32": "f", "float64": "d", "complex64": "f", "complex128": "d", "bytes": "B"}
FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
# Digits of the fraction of what may be rounded. (bfloat16 is only sent.)
PRECISION = {"float16": 10, "float32": 23, "float64": 52, "complex64": 23, "complex128": 52, "float8_e4m3fn": 3, "float8_e5m2": 2}


def expected_cells(rank, size):
    """Those that are compared at least: call, dtype, length."""
    calls = {"all_reduce/sum-of-thirds": REAL + COMPLEX, "broadcast": WHOLE + REAL}
    for call in ("scatter", "all_gather", "all_gather_into_tensor", "all_gather_coalesced", "all_to_all", "all_to_all_single",
                 "all_to_all_single/splits"):
        calls[call] = WHOLE + REAL + COMPLEX
    for call in ("all_reduce", "all_reduce_coalesced", "reduce_scatter", "reduce_scatter_tensor", "reduce"):
        if call != "reduce" or rank == size - 1:
            calls[f"{call}/sum"] = WHOLE + REAL + (COMPLEX if call != "reduce" else ())
            calls.update({f"{call}/{operation}": WHOLE + REAL for operation in ("product", "min", "max")})
            calls.update({f"{call}/{operation}": WHOLE for operation in ("band", "bor", "bxor")})
    if size > 1:
        calls.update({call: ALL for call in ("isend/recv", "send/recv", "recv/any", "batch_isend_irecv")})
    if rank == 0:
        calls["gather"] = WHOLE + REAL
    cells = {f"{call} {dtype} {count}" for call, dtypes in calls.items() for dtype in dtypes for count in (7, 1000)}
    cells |= {f"{call} {dtype} 0" for call, dtypes in calls.items() for dtype in dtypes
              if not call.startswith("all_gather") and call != "recv/any"}
    if size <= FEW_RANKS:
        cells |= {f"{call} float32 {LONG_COUNT}" for call, dtypes in calls.items() if "float32" in dtypes}
    objects = {"all_gather_object", "broadcast_object_list", "scatter_object_list"} | ({"gather_object"} if rank == 0 else set())
    return cells | {f"{call} bytes {count}" for call in objects for count in (0, 7, 1000)}


def python_with_torch():
    for python in (os.environ.get("DLAUNCH_TORCH_PYTHON"), os.environ.get("PYTHON_EXEC"), sys.executable, "/usr/bin/python3"):
        if python and subprocess.run([python, "-c", "import torch.distributed as d; assert d.is_available()"],
                                     capture_output=True, check=False).returncode == 0:
            return python
    return None


def records(file):
    """{cell: (where its bytes are, how many)}."""
    found = {}
    while name := file.readline():
        length = int(file.readline())
        found[name.decode().strip()] = (file.tell(), length)
        file.seek(length, os.SEEK_CUR)
    return found


def float8(byte, dtype):
    """The value of a finite one."""
    digits, bias = (3, 7) if dtype == "float8_e4m3fn" else (2, 15)
    exponent, fraction = (byte & 127) >> digits, byte & (1 << digits) - 1
    magnitude = (fraction + ((1 << digits) if exponent else 0)) * 2.0 ** (max(exponent, 1) - bias - digits)
    return -magnitude if byte > 127 else magnitude


def numbers(data, dtype):
    if dtype == "float16":
        return [value for value, in struct.iter_unpack("<e", data)]
    if dtype in FLOAT8:
        return [float8(byte, dtype) for byte in data]
    values = array.array(FORMAT[dtype])
    values.frombytes(data)
    return values


def difference(ours, theirs, dtype, roundings):
    """What is not equal, nor apart by no more than so many halves of a unit in the last place on each side; or None."""
    if len(ours) != len(theirs):
        return f"{len(ours)} bytes, PyTorch has {len(theirs)}"
    allowed = 2 * roundings * 2.0 ** -(PRECISION[dtype] + 1) if dtype in PRECISION else 0
    for i, (a, b) in enumerate(zip(numbers(ours, dtype), numbers(theirs, dtype))):
        if not (a == b or abs(a - b) <= allowed * max(abs(a), abs(b))):
            part = f"{['real', 'imaginary'][i % 2]} part of value {i // 2}" if dtype in COMPLEX else f"value {i}"
            return f"{part} is {a!r}, PyTorch's is {b!r}"
    return None


def compare_with_gloo(test, ours, over_gloo, size, at_least):
    """Each cell that a backend has written to the folder `ours` against the same of our backend gloo."""
    for rank in range(size):
        with open(f"{ours}/rank{rank}", "rb") as own, open(f"{over_gloo}/rank{rank}", "rb") as others:
            mine, wanted = records(own), records(others)
            test.assertLessEqual(mine.keys(), wanted.keys())
            test.assertGreater(len(mine), at_least)
            for cell, (begin, length) in mine.items():
                own.seek(begin)
                result = own.read(length)
                others.seek(wanted[cell][0])
                expected = others.read(wanted[cell][1])
                if result != expected:
                    test.assertIsNone(difference(result, expected, cell.split()[1], size), f"rank {rank} of {size}: {cell}")


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

    def compare_rank(self, rank, size, ours, theirs):
        mine, wanted = records(ours), records(theirs)
        for side, cells in (("PyTorch's", expected_cells(rank, size) - wanted.keys()), ("our", wanted.keys() - mine.keys())):
            if cells:
                self.fail(f"rank {rank} of {size}: {side} side lacks {len(cells)} cells: {', '.join(sorted(cells)[:20])}")
        for cell in wanted:
            results = []
            for file, (begin, length) in ((ours, mine[cell]), (theirs, wanted[cell])):
                file.seek(begin)
                results.append(file.read(length))
            if results[0] != results[1]:
                if differs := difference(*results, cell.split()[1], size):
                    self.fail(f"rank {rank} of {size}: {cell}: {differs}")

    def compare(self, size):
        ours = self.run_side("ours", os.path.join(BUILD, "tests", "conformance_ranks"), str(size))
        self.compare_with_torch(size, ours)

    def compare_with_torch(self, size, ours):
        theirs = self.run_side("theirs", self.python, os.path.join(HERE, "conformance_torch.py"), str(size))
        for rank in range(size):
            with open(os.path.join(ours, f"rank{rank}"), "rb") as mine, open(os.path.join(theirs, f"rank{rank}"), "rb") as wanted:
                self.compare_rank(rank, size, mine, wanted)

    def test_world_size_1(self):
        self.compare(1)

    def test_world_size_2(self):
        self.compare(2)

    def test_world_size_3(self):
        self.compare(3)

    def test_world_size_4(self):
        self.compare(4)

    def test_two_hosts_of_two_ranks(self):
        """Shared memory within each, TCP between them."""
        hosts = Hosts(self, 2)
        directory = os.path.join(self.dir, "ours")
        os.mkdir(directory)
        nodes = [subprocess.Popen([*hosts.on(i), os.path.join(BUILD, "bin", "dlaunch"), "--nnodes=2", f"--node-rank={i}", "--nproc-per-node=2",
                                   f"--master-addr={hosts.addresses[0]}", "--master-port=29500",
                                   os.path.join(BUILD, "tests", "conformance_ranks"), directory, "4"], text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT) for i in range(2)]
        for node in nodes:
            self.addCleanup(node.kill)
        for node in nodes:
            output, _ = node.communicate(timeout=300)
            self.assertEqual(node.returncode, 0, output)
        self.compare_with_torch(4, directory)

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

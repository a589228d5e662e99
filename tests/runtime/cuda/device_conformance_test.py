#!/usr/bin/env python3
"""CUDA tensors on the doubles of CUDA's runtime and NCCL, with each backend that takes them: the table of the conformance test,
against our backend gloo on the CPU.

    DLAUNCH_BIN_DIR=build/bin device_conformance_test.py [Class.test ...]
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "api")]
import gpus  # noqa: E402
from conformance_test import compare_with_gloo, records  # noqa: E402
from support_table import check_calls  # noqa: E402

BUILD = os.path.dirname(os.path.abspath(os.environ["DLAUNCH_BIN_DIR"]))
DOUBLES = os.path.join(BUILD, "tests", "doubles")
# A launcher's own variables would make a rank of the program that is to start its ranks itself.
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMI_", "PMIX_", "RANK"))}


def variables_of_gpus(test, ranks):
    """The environment of ranks on the GPUs of this machine."""
    if gpus.count() == 0:
        test.skipTest("there is no GPU: nvidia-smi lists none")
    return gpus.variables(ranks) | {"DLAUNCH_TEST_GPUS": str(gpus.count())}


class Conformance(unittest.TestCase):
    backend = "gloo"
    at_least = 700
    has_every_cell = True

    def setUp(self):
        if not os.path.exists(os.path.join(BUILD, "lib", "dlaunch", f"backend_{self.backend}.so")):
            self.skipTest(f"the backend {self.backend} was not built")

    def launched(self, _size, *command):
        return command

    def run_side(self, directory, name, command, **environment):
        path = os.path.join(directory, name)
        os.mkdir(path)
        done = subprocess.run(command(path), capture_output=True, text=True, timeout=280, check=False, env=PLAIN | environment)
        if missing := re.search("'nccl' cannot be used: (.*); its cell|(ranks . and . use one GPU).*", done.stderr):
            self.skipTest(missing.group(1) or missing.group(2) + ", which NCCL allows since 2.30")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("double:", done.stderr)
        return path

    def compare(self, size, **environment):
        with tempfile.TemporaryDirectory(prefix="dlaunch_device.") as directory:
            on_device = self.run_side(directory, "device", lambda path: self.launched(
                size, os.path.join(BUILD, "tests", "conformance_device_ranks"), path, str(size), self.backend), **environment)
            on_host = self.run_side(directory, "host", lambda path: (os.path.join(BUILD, "tests", "conformance_ranks"), path, str(size)))
            compare_with_gloo(self, on_device, on_host, size, self.at_least if size > 1 else 500)
            cells = set()
            cells_on_host = set()
            for rank in range(size):
                with open(f"{on_device}/rank{rank}", "rb") as ours, open(f"{on_host}/rank{rank}", "rb") as others:
                    own, wanted = records(ours).keys(), records(others).keys()
                    cells |= own
                    cells_on_host |= wanted
                    if self.has_every_cell:
                        self.assertEqual(own, wanted)
            if size > 1:
                check_calls(self, self.backend, "cuda", cells)
                check_calls(self, "gloo", "cpu", cells_on_host)

    def compare_on_doubles(self, size):
        self.compare(size, LD_LIBRARY_PATH=DOUBLES, CUDA_DOUBLE_SEED=str(size))

    def compare_on_gpus(self, size):
        self.compare(size, **variables_of_gpus(self, size))


class Gloo(Conformance):
    def test_world_of_1(self):
        self.compare_on_doubles(1)

    def test_world_of_2(self):
        self.compare_on_doubles(2)

    def test_world_of_3(self):
        self.compare_on_doubles(3)

    def test_world_of_2_over_tcp(self):
        self.compare(2, LD_LIBRARY_PATH=DOUBLES, CUDA_DOUBLE_SEED="7", DLAUNCH_SHM="0")

    def test_one_rank_on_a_gpu(self):
        self.compare_on_gpus(1)

    def test_2_ranks_on_a_gpu(self):
        self.compare_on_gpus(2)


class Shm(Conformance):
    backend = "shm"

    def test_world_of_2(self):
        self.compare_on_doubles(2)

    def test_2_ranks_on_a_gpu(self):
        self.compare_on_gpus(2)

    def test_on_the_cpu(self):
        with tempfile.TemporaryDirectory(prefix="dlaunch_shm.") as directory:
            path = self.run_side(directory, "host", lambda path: (os.path.join(BUILD, "tests", "conformance_ranks"), path, "2", "shm"))
            with open(f"{path}/rank0", "rb") as first, open(f"{path}/rank1", "rb") as second:
                check_calls(self, "shm", "cpu", records(first).keys() | records(second).keys())


class Mpi(Conformance):
    """Under the mpirun of Open MPI."""
    backend = "mpi"
    mpiexec = "mpiexec.openmpi"

    def setUp(self):
        super().setUp()
        if shutil.which(self.mpiexec) is None:
            self.skipTest(f"there is no {self.mpiexec} (Debian: openmpi-bin)")

    def launched(self, size, *command):
        root = ["--allow-run-as-root"] if os.getuid() == 0 else []
        return [self.mpiexec, "--oversubscribe", *root, "-x", "LD_LIBRARY_PATH", "-n", str(size), *command]

    def test_world_of_2(self):
        self.compare_on_doubles(2)


class MpiOnDevices(Mpi):
    """Debian's MPIs use no device memory: here the double's memory is open to the host, which takes the place of an MPI that does."""
    on_devices = {"LD_LIBRARY_PATH": DOUBLES, "DLAUNCH_MPI_CUDA": "1", "CUDA_DOUBLE_SEED": "5"}
    calls = "mpi_calls_open_mpi.so"
    # Only MPI can reduce, and copy, what is on a device: the CPU must not.
    done_by_mpi = {"MPI_Iallgather"}

    def launched(self, size, *command):
        names = [word for name in ("DLAUNCH_MPI_CUDA", "CUDA_DOUBLE_OPEN_MEMORY", "CUDA_DOUBLE_SEED", "LD_PRELOAD", "MPI_CALLS") for word in ("-x", name)]
        first, *rest = super().launched(size, *command)
        return [first, *names, *rest]

    def test_world_of_2(self):
        with tempfile.NamedTemporaryFile("r", prefix="dlaunch_calls.") as calls:
            self.compare(2, **self.on_devices, CUDA_DOUBLE_OPEN_MEMORY="1", MPI_CALLS=calls.name,
                         LD_PRELOAD=os.path.join(BUILD, "tests", self.calls))
            self.assertEqual(set(calls.read().split()), self.done_by_mpi)

    def test_the_memory_of_devices_goes_to_mpi(self):
        with tempfile.TemporaryDirectory(prefix="dlaunch_device.") as directory:
            ranks = os.path.join(BUILD, "tests", "conformance_device_ranks")
            done = subprocess.run(self.launched(2, ranks, directory, "2", "mpi"), capture_output=True, text=True, timeout=280,
                                  check=False, env=PLAIN | self.on_devices)
            self.assertNotEqual(done.returncode, 0, "nothing has touched the memory, which is closed to the host")


class MpichOnDevices(MpiOnDevices):
    """Its reductions, too."""
    mpiexec = "mpiexec.hydra"
    calls = "mpi_calls_mpich.so"
    done_by_mpi = {"MPI_Iallgather", "MPI_Iallreduce", "MPI_Ireduce"}

    def launched(self, size, *command):
        return [self.mpiexec, "-n", str(size), *command]


class Nccl(Conformance):
    backend = "nccl"
    at_least = 500
    has_every_cell = False

    def test_world_of_1(self):
        self.compare_on_doubles(1)

    def test_world_of_2(self):
        self.compare_on_doubles(2)

    def test_world_of_3(self):
        self.compare_on_doubles(3)

    def test_world_of_8(self):
        self.compare_on_doubles(8)

    def test_one_rank_on_a_gpu(self):
        self.compare_on_gpus(1)

    def test_2_ranks_on_a_gpu(self):
        self.compare_on_gpus(2)

    def test_4_ranks_on_a_gpu(self):
        self.compare_on_gpus(4)


class Programs(unittest.TestCase):
    """The tests of streams, groups, failures and gradients, which run on the doubles elsewhere."""

    def check(self, program, ranks):
        done = subprocess.run([os.path.join(BUILD, "tests", program), "--gtest_brief=1"], capture_output=True, text=True, timeout=280,
                              check=False, env=PLAIN | variables_of_gpus(self, ranks))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_nccl_on_a_gpu(self):
        self.check("nccl_test", 3)

    def test_gradients_on_a_gpu(self):
        self.check("device_gradients_test", 2)

    def test_staging_on_a_gpu(self):
        self.check("staging_test", 3)


if __name__ == "__main__":
    program = unittest.main(exit=False)
    if not program.result.wasSuccessful():
        sys.exit(1)
    if program.result.skipped and len(program.result.skipped) == program.result.testsRun:
        sys.exit(77)  # CTest's "skipped"

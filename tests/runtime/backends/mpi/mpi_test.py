#!/usr/bin/env python3
"""The backend mpi under each real mpirun, and under dlaunch: the table of the conformance test, against the results of our
backend gloo. The programs are linked with no MPI; who starts them decides which one they use.

    DLAUNCH_BIN_DIR=build/bin mpi_test.py [Class.test ...]
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "api"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "process"))
from common import wait_until  # noqa: E402
from conformance_test import compare_with_gloo, records  # noqa: E402
from support_table import check_calls  # noqa: E402

BUILD = os.path.dirname(os.path.abspath(os.environ["DLAUNCH_BIN_DIR"]))
RANKS = os.path.join(BUILD, "tests", "conformance_ranks")
MPI_RANKS = os.path.join(BUILD, "tests", "mpi_ranks")
# The launcher's own variables would make a rank of the program that is to start its ranks itself.
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMI_", "PMIX_", "RANK"))}


class Mpi(unittest.TestCase):
    module = "mpi_open_mpi.so"
    mpiexec = "mpiexec.openmpi"

    def setUp(self):
        if not os.path.exists(os.path.join(BUILD, "lib", "dlaunch", self.module)):
            self.skipTest(f"{self.module} was not built (Debian: libopenmpi-dev, libmpich-dev)")
        if shutil.which(self.mpiexec) is None:
            self.skipTest(f"there is no {self.mpiexec} (Debian: openmpi-bin, mpich)")
        self.dir = tempfile.mkdtemp(prefix="dlaunch_mpi.")
        self.addCleanup(shutil.rmtree, self.dir)

    def mpirun(self, size, *command):
        root = ["--allow-run-as-root"] if os.getuid() == 0 else []
        return [self.mpiexec, "--oversubscribe", *root, "-n", str(size), *command]

    def run_side(self, name, size, launch=lambda *command: command):
        directory = os.path.join(self.dir, name)
        os.mkdir(directory)
        done = subprocess.run(launch(RANKS, directory, str(size)), capture_output=True, text=True, env=PLAIN, timeout=250,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return directory

    def compare(self, size):
        over_mpi = self.run_side("mpi", size, lambda *command: self.mpirun(size, *command))
        over_gloo = self.run_side("gloo", size)
        compare_with_gloo(self, over_mpi, over_gloo, size, 700 if size > 1 else 0)
        cells = set()
        for rank in range(size):
            with open(f"{over_mpi}/rank{rank}", "rb") as ours, open(f"{over_gloo}/rank{rank}", "rb") as others:
                own = records(ours).keys()
                cells |= own
                self.assertEqual(own, records(others).keys())
        if size > 1:
            check_calls(self, "mpi", "cpu", cells)

    def check_error(self):
        _, printed, all_of_it = self.run_ranks(2, "lengths")
        self.assertRegex(printed, "rank 1: .*MPI_Irecv failed: .*[Tt]runcated", all_of_it)
        _, printed, all_of_it = self.run_ranks(2, "counts")
        self.assertRegex(printed, "rank 1: .*rank 0 sent 16 bytes where this rank expects 20: the calls of the two", all_of_it)
        _, printed, all_of_it = self.run_ranks(2, "counts_in_pieces")
        self.assertRegex(printed, "rank 1: .*rank 0 sent [0-9]+ bytes where this rank expects [0-9]+: the calls", all_of_it)

    def check_deadline(self):
        _, printed, all_of_it = self.run_ranks(2, "deadline", self.dir)
        self.assertRegex(printed, "rank 0: .*not all ranks came before the deadline", all_of_it)
        self.assertRegex(printed, "rank 1: .*peer 0 on .*it gave up: not all ranks came before the deadline", all_of_it)

    def check_long_data(self):
        for size in (2, 3):
            code, printed, all_of_it = self.run_ranks(size, "long")
            self.assertEqual(code, 0, all_of_it)
            self.assertEqual(printed.count("all is right"), size, all_of_it)

    def check_worlds(self):
        code, printed, all_of_it = self.run_ranks(3, "worlds")
        self.assertEqual(code, 0, all_of_it)
        wanted = [f"world {world}: rank {rank} of 3, local rank {rank}, sum 6" for world in range(2) for rank in range(3)]
        # MPICH's UCX may print which messages it has not delivered.
        self.assertEqual(sorted(line for line in printed.splitlines() if line.startswith("world")), wanted)

    def run_ranks(self, size, *arguments):
        done = subprocess.run(self.mpirun(size, MPI_RANKS, *arguments), capture_output=True,
                              text=True, env=PLAIN, timeout=250, check=False)
        return done.returncode, done.stdout, done.stdout + done.stderr


class OpenMpi(Mpi):
    def test_world_of_1(self):
        self.compare(1)

    def test_world_of_2(self):
        self.compare(2)

    def test_world_of_3(self):
        self.compare(3)

    def test_world_of_4(self):
        self.compare(4)

    def test_world_of_6(self):
        self.compare(6)

    def test_ranks_and_store_are_those_of_mpi(self):
        self.check_worlds()

    def test_long_data(self):
        self.check_long_data()

    def test_an_error_of_mpi_is_an_exception(self):
        self.check_error()

    def test_a_passed_deadline_ends_all_ranks(self):
        self.check_deadline()

    def test_mpirun_ends_the_job_of_a_dead_rank(self):
        code, _, all_of_it = self.run_ranks(3, "dead")
        self.assertNotEqual(code, 0, all_of_it)
        self.assertRegex(all_of_it, r"process rank 1 .* exited on signal 9")

    def test_a_program_without_mpirun_learns_how_to_start(self):
        done = subprocess.run([RANKS, self.dir, "2"], capture_output=True, text=True, timeout=60, check=False,
                              env=PLAIN | {"PMI_RANK": "0"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("no MPI launcher started this process: start it with mpirun", done.stderr)


class Mpich(Mpi):
    module = "mpi_mpich.so"
    mpiexec = "mpiexec.hydra"

    def mpirun(self, size, *command):
        return [self.mpiexec, "-n", str(size), *command]

    def test_world_of_3(self):
        self.compare(3)

    def test_ranks_and_store_are_those_of_mpi(self):
        self.check_worlds()

    def test_long_data(self):
        self.check_long_data()

    def test_an_error_of_mpi_is_an_exception(self):
        self.check_error()

    def test_a_passed_deadline_ends_all_ranks(self):
        self.check_deadline()

    def test_mpiexec_ends_the_job_of_a_dead_rank(self):
        code, _, all_of_it = self.run_ranks(3, "dead")
        self.assertNotEqual(code, 0, all_of_it)  # the signal, or what a rank returned that noticed it before mpiexec
        self.assertRegex(all_of_it, "BAD TERMINATION|it died")

    def test_a_lost_rank_is_named_if_neither_mpi_nor_mpiexec_notices(self):
        job = subprocess.Popen(self.mpirun(2, MPI_RANKS, "lost", self.dir), env=PLAIN,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        error = os.path.join(self.dir, "error.0")
        wait_until(lambda: os.path.exists(error), "rank 0 has failed")
        with open(error, encoding="utf-8") as file:
            self.assertRegex(file.read(), "rank 0, all_reduce #1 of group default, peer 1 .*: it died, or the connection")


class Dlaunch(Mpi):
    """MPICH without its mpiexec: dlaunch starts the ranks, and serves their store."""

    module = "mpi_mpich.so"
    offer = "--mpi=pmi"
    mpiexec = os.path.join(BUILD, "bin", "dlaunch")

    def mpirun(self, size, *command):
        return [self.mpiexec, self.offer, f"--nproc-per-node={size}", *command]

    def test_world_of_2(self):
        self.compare(2)

    def test_ranks_are_those_of_dlaunch(self):
        self.check_worlds()

    def test_a_dead_rank_is_named(self):
        code, _, all_of_it = self.run_ranks(3, "dead")
        self.assertEqual(code, 137, all_of_it)
        self.assertRegex(all_of_it, r"(?m)^dlaunch: failed: rank 1 \(.*\) was killed by signal 9")

    def test_messages_that_never_come_are_a_hang(self):
        done = subprocess.run(self.mpirun(2, "--hang-timeout=2", MPI_RANKS, "deadlock"), capture_output=True, text=True, env=PLAIN,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"(?m)^dlaunch: failed: nothing has moved for 2 s .*: 0 from rank 1, 1 from rank 0")

    def test_without_pmi_the_program_learns_how_to_start(self):
        done = subprocess.run([self.mpiexec, "--nproc-per-node=2", MPI_RANKS, "worlds"], capture_output=True, text=True, env=PLAIN,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("no MPI launcher started this process: start it with mpirun", done.stderr)
        self.assertIn("dlaunch --mpi=pmi", done.stderr)


class DlaunchWithPmix(Dlaunch):
    """Open MPI without its mpirun."""

    module = "mpi_open_mpi.so"
    offer = "--mpi=pmix"

    def setUp(self):
        super().setUp()
        if not os.path.exists(os.path.join(BUILD, "lib", "dlaunch", "dlaunch-pmix")):
            self.skipTest("dlaunch-pmix was not built (Debian: libpmix-dev)")


if __name__ == "__main__":
    program = unittest.main(exit=False)
    if not program.result.wasSuccessful():
        sys.exit(1)
    if program.result.skipped and len(program.result.skipped) == program.result.testsRun:
        sys.exit(77)  # CTest's "skipped"

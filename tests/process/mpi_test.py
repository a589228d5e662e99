#!/usr/bin/env python3
"""Plain MPI programs under dlaunch, which takes the place of their mpirun: of MPICH, by PMI-1.

    DLAUNCH_BIN_DIR=build/bin DLAUNCH_TEST_MPICH=build/tests/mpi_program_mpich \
        DLAUNCH_TEST_OPENMPI=build/tests/mpi_program_openmpi mpi_test.py [Class.test ...]

The end of a test whose ranks wait for a lost one is dlaunch's: MPICH's ranks would wait for ever.
"""

import os
import shutil
import subprocess
import unittest

from common import DLAUNCH, PATIENCE, environment, free_port, main, summary
from hosts import Hosts
from launch_case import Launch

MPICH = os.path.abspath(os.environ.get("DLAUNCH_TEST_MPICH") or "/none")
OPEN_MPI = os.path.abspath(os.environ.get("DLAUNCH_TEST_OPENMPI") or "/none")


def sums(size):
    total = sum(range(size))
    return [f"rank {rank} of {size}: sum {total}, RANK {rank}" for rank in range(size)]


class MpichProgram(Launch):
    def setUp(self):
        super().setUp()
        if not os.access(MPICH, os.X_OK):
            self.skipTest("there is no mpicc.mpich (Debian: libmpich-dev)")


class OneNode(MpichProgram):
    def mpich(self, size, *arguments):
        return self.run_dlaunch(f"--nproc-per-node={size}", *arguments)

    def test_ranks_find_each_other(self):
        done = self.mpich(3, MPICH)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()), sums(3))
        self.assertEqual(done.stderr, "")

    def test_a_world_of_one(self):
        done = self.mpich(1, MPICH)
        self.assertEqual(done.stdout.splitlines(), sums(1), done.stderr)

    def test_an_abort_ends_the_job_with_its_code(self):
        done = self.mpich(3, MPICH, "abort", "7")
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertRegex(summary(done.stderr), r"rank 1 \(.*\) exited with code 7: it called MPI_Abort with code 7")

    def test_an_abort_with_code_0_is_no_success(self):
        done = self.mpich(2, MPICH, "abort", "0")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("it called MPI_Abort with code 0", summary(done.stderr))

    def test_a_killed_rank_is_named(self):
        done = self.mpich(3, MPICH, "die")
        self.assertEqual(done.returncode, 137, done.stderr)
        self.assertRegex(summary(done.stderr), r"rank 1 \(.*\) was killed by signal 9 \(SIGKILL\)")

    def test_a_rank_that_returns_0_before_mpi_is_named(self):
        done = self.mpich(2, MPICH, "leave")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(summary(done.stderr), r"rank 1 \(.*\) returned 0, and other ranks wait for it in MPI_Init")

    def test_a_restart_is_a_new_world(self):
        done = self.mpich(2, "--max-restarts=1", MPICH, "again")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()), sums(2))

    def test_a_script_that_starts_the_program_names_pmi(self):
        script = ("sh", "-c", f"exec {MPICH}")
        done = self.mpich(2, "--mpi=pmi", *script)
        self.assertEqual(sorted(done.stdout.splitlines()), sums(2), done.stderr)
        alone = self.mpich(2, *script)
        self.assertEqual(sorted(alone.stdout.splitlines()), [f"rank 0 of 1: sum 0, RANK {rank}" for rank in range(2)])

    def test_an_mpiexec_in_a_worker_starts_ranks_of_its_own(self):
        mpiexec = shutil.which("mpiexec.hydra")
        if mpiexec is None:
            self.skipTest("there is no mpiexec.hydra (Debian: mpich)")
        done = self.mpich(1, "--mpi=pmi", mpiexec, "-n", "2", MPICH)
        self.assertEqual(sorted(done.stdout.splitlines()),
                         [f"rank {rank} of 2: sum 1, RANK 0" for rank in range(2)], done.stderr)

    def test_other_programs_get_nothing(self):
        done = self.mpich(1, "sh", "-c", "env | grep ^PMI_; ls /proc/self/fd | wc -l")
        with_pmi = self.mpich(1, "--mpi=pmi", "sh", "-c", "env | grep -c ^PMI_; ls /proc/self/fd | wc -l")
        self.assertEqual(with_pmi.stdout.split(), ["3", str(int(done.stdout) + 1)], "PMI_RANK, PMI_SIZE and PMI_FD")

    def test_each_rank_is_alone_without_pmi(self):
        done = self.mpich(2, "--mpi=none", MPICH)
        self.assertEqual(sorted(done.stdout.splitlines()), [f"rank 0 of 1: sum 0, RANK {rank}" for rank in range(2)], done.stderr)


class TwoHosts(MpichProgram):
    """Two ranks on each of two hosts. UCX chooses how they communicate: with UCX_TLS=tcp MPICH 4.0's MPI_Finalize hangs in one
    of three runs, under its own mpiexec too."""

    def setUp(self):
        super().setUp()
        self.hosts = Hosts(self, 2)

    def run_on_both(self, *arguments):
        port = free_port()
        jobs = [subprocess.Popen([*self.hosts.on(i), DLAUNCH, "--nnodes=2", f"--node-rank={i}", "--nproc-per-node=2",
                                  f"--master-addr={self.hosts.addresses[0]}", f"--master-port={port}", *arguments],
                                 cwd=self.dir, env=environment(), text=True, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE) for i in range(2)]
        for job in jobs:
            self.addCleanup(self.finish, job)
        return [(*job.communicate(timeout=PATIENCE), job.returncode) for job in jobs]

    def test_ranks_find_each_other(self):
        ends = self.run_on_both(MPICH)
        self.assertEqual([code for _, _, code in ends], [0, 0], ends)
        self.assertEqual([sorted(out.splitlines()) for out, _, _ in ends], [sums(4)[:2], sums(4)[2:]])

    def test_an_abort_ends_the_job_with_its_code(self):
        for out, err, code in self.run_on_both(MPICH, "abort", "7"):
            self.assertEqual(code, 7, out + err)
            self.assertIn("it called MPI_Abort with code 7", summary(err))

    def test_a_killed_rank_is_named(self):
        for out, err, code in self.run_on_both(MPICH, "die"):
            self.assertEqual(code, 137, out + err)
            self.assertRegex(summary(err), r"rank 1 \(.*node 0.*\) was killed by signal 9 \(SIGKILL\)")

    def test_a_rank_that_returns_0_before_mpi_is_named(self):
        for out, err, code in self.run_on_both(MPICH, "leave"):
            self.assertEqual(code, 1, out + err)
            self.assertRegex(summary(err), r"rank 1 \(.*\) returned 0, and other ranks wait for it in MPI_Init")

    def test_a_restart_is_a_new_world(self):
        ends = self.run_on_both("--max-restarts=1", MPICH, "again")
        self.assertEqual([code for _, _, code in ends], [0, 0], ends)
        # UCX may print the lost connections of the first round.
        lines = [sorted(line for line in out.splitlines() if line.startswith("rank ")) for out, _, _ in ends]
        self.assertEqual(lines, [sums(4)[:2], sums(4)[2:]])


class OpenMpi(Launch):
    def setUp(self):
        super().setUp()
        if not os.access(OPEN_MPI, os.X_OK):
            self.skipTest("there is no mpicc.openmpi (Debian: libopenmpi-dev)")

    def test_ranks_that_do_not_find_each_other_are_reported(self):
        # Ranks that start at the same time may fail: each makes Open MPI's directory of this host in TMPDIR.
        done = self.run_dlaunch("--nproc-per-node=2", OPEN_MPI, TMPDIR=self.dir)
        self.assertIn("is linked with Open MPI, which finds no other ranks under dlaunch (PMIx): each of its processes will be "
                      "rank 0 of 1. Start it with mpirun -n N", done.stderr)


if __name__ == "__main__":
    main()

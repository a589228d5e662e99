#!/usr/bin/env python3
"""Plain MPI programs under dlaunch, which takes the place of their mpirun: of MPICH by PMI-1, of Open MPI by PMIx.

    DLAUNCH_BIN_DIR=build/bin DLAUNCH_TEST_MPICH=build/tests/mpi_program_mpich \
        DLAUNCH_TEST_OPENMPI=build/tests/mpi_program_openmpi mpi_test.py [Class.test ...]

The end of a test whose ranks wait for a lost one is dlaunch's: MPICH's ranks would wait for ever.
"""

import os
import shutil
import signal
import unittest

from common import DLAUNCH, PATIENCE, children_of, free_port, main, summary
from hosts import Hosts
from launch_case import Launch

MPICH = os.path.abspath(os.environ.get("DLAUNCH_TEST_MPICH") or "/none")
PMIX = os.path.join(os.path.dirname(DLAUNCH), "../lib/dlaunch/dlaunch-pmix")
OPEN_MPI = os.path.abspath(os.environ.get("DLAUNCH_TEST_OPENMPI") or "/none")


def command_of(pid):
    with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
        return file.read()


def sums(size):
    total = sum(range(size))
    return [f"rank {rank} of {size}: sum {total}, RANK {rank}" for rank in range(size)]


class MpiProgram(Launch):
    """Of MPICH; the classes for Open MPI say so."""

    program = MPICH
    offer = "--mpi=pmi"
    needs = (MPICH,)
    package = "mpicc.mpich (Debian: libmpich-dev)"

    def setUp(self):
        super().setUp()
        if not all(os.access(program, os.X_OK) for program in self.needs):
            self.skipTest(f"there is no {self.package}")

    def written(self, name):
        """What a rank has written into the file of this name."""
        with open(os.path.join(self.dir, name), encoding="utf-8") as file:
            return file.read().strip()

    def run_ranks(self, size, *arguments):
        return self.run_dlaunch(f"--nproc-per-node={size}", *arguments)


class OneNode(MpiProgram):
    def test_ranks_find_each_other(self):
        done = self.run_ranks(3, self.program)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()), sums(3))
        self.assertEqual(done.stderr, "")

    def test_a_world_of_one(self):
        done = self.run_ranks(1, self.program)
        self.assertEqual(done.stdout.splitlines(), sums(1), done.stderr)

    def test_an_abort_ends_the_job_with_its_code(self):
        done = self.run_ranks(3, self.program, "abort", "7")
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertRegex(summary(done.stderr), r"rank 1 \(.*\) exited with code 7: it called MPI_Abort with code 7")

    def test_an_abort_with_code_0_is_no_success(self):
        done = self.run_ranks(2, self.program, "abort", "0")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("it called MPI_Abort with code 0", summary(done.stderr))

    def test_a_killed_rank_is_named(self):
        done = self.run_ranks(3, self.program, "die")
        self.assertEqual(done.returncode, 137, done.stderr)
        self.assertRegex(summary(done.stderr), r"rank 1 \(.*\) was killed by signal 9 \(SIGKILL\)")

    def test_a_rank_that_returns_0_before_mpi_is_named(self):
        done = self.run_ranks(2, self.program, "leave")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(summary(done.stderr), r"rank 1 \(.*\) returned 0, and other ranks wait for it in MPI_Init")

    def test_a_restart_is_a_new_world(self):
        done = self.run_ranks(2, "--max-restarts=1", self.program, "again")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()), sums(2))

    def test_a_script_that_starts_the_program_names_pmi(self):
        script = ("sh", "-c", f"exec {self.program}")
        done = self.run_ranks(2, self.offer, *script)
        self.assertEqual(sorted(done.stdout.splitlines()), sums(2), done.stderr)


class TwoHosts(MpiProgram):
    """Two ranks on each of two hosts. UCX chooses how MPICH's communicate: with UCX_TLS=tcp MPICH 4.0's MPI_Finalize
    hangs in one of three runs, under its own mpiexec too."""

    def setUp(self):
        super().setUp()
        self.hosts = Hosts(self, 2)

    def start_node(self, i, port, *arguments):
        return self.start("--nnodes=2", f"--node-rank={i}", "--nproc-per-node=2", f"--master-addr={self.hosts.addresses[0]}",
                          f"--master-port={port}", *arguments, prefix=self.hosts.on(i))

    def run_on_both(self, *arguments):
        port = free_port()
        jobs = [self.start_node(i, port, *arguments) for i in range(2)]
        return [(*job.communicate(timeout=PATIENCE), job.returncode) for job in jobs]

    def test_ranks_find_each_other(self):
        ends = self.run_on_both(self.program)
        self.assertEqual([code for _, _, code in ends], [0, 0], ends)
        self.assertEqual([sorted(out.splitlines()) for out, _, _ in ends], [sums(4)[:2], sums(4)[2:]])

    def test_an_abort_ends_the_job_with_its_code(self):
        for out, err, code in self.run_on_both(self.program, "abort", "7"):
            self.assertEqual(code, 7, out + err)
            self.assertIn("it called MPI_Abort with code 7", summary(err))

    def test_a_killed_rank_is_named(self):
        for out, err, code in self.run_on_both(self.program, "die"):
            self.assertEqual(code, 137, out + err)
            self.assertRegex(summary(err), r"rank 1 \(.*node 0.*\) was killed by signal 9 \(SIGKILL\)")

    def test_a_rank_that_returns_0_before_mpi_is_named(self):
        for out, err, code in self.run_on_both(self.program, "leave"):
            self.assertEqual(code, 1, out + err)
            self.assertRegex(summary(err), r"rank 1 \(.*\) returned 0, and other ranks wait for it in MPI_Init")

    def test_a_restart_is_a_new_world(self):
        ends = self.run_on_both("--max-restarts=1", self.program, "again")
        self.assertEqual([code for _, _, code in ends], [0, 0], ends)
        # UCX may print the lost connections of the first round.
        lines = [sorted(line for line in out.splitlines() if line.startswith("rank ")) for out, _, _ in ends]
        self.assertEqual(lines, [sums(4)[:2], sums(4)[2:]])


class MpichAlone(MpiProgram):
    def test_an_mpiexec_in_a_worker_starts_ranks_of_its_own(self):
        mpiexec = shutil.which("mpiexec.hydra")
        if mpiexec is None:
            self.skipTest("there is no mpiexec.hydra (Debian: mpich)")
        done = self.run_ranks(1, "--mpi=pmi", mpiexec, "-n", "2", MPICH)
        self.assertEqual(sorted(done.stdout.splitlines()),
                         [f"rank {rank} of 2: sum 1, RANK 0" for rank in range(2)], done.stderr)

    def test_other_programs_get_nothing(self):
        done = self.run_ranks(1, "sh", "-c", "env | grep ^PMI_; ls /proc/self/fd | wc -l")
        with_pmi = self.run_ranks(1, "--mpi=pmi", "sh", "-c", "env | grep -c ^PMI_; ls /proc/self/fd | wc -l")
        self.assertEqual(with_pmi.stdout.split(), ["3", str(int(done.stdout) + 1)], "PMI_RANK, PMI_SIZE and PMI_FD")

    def test_each_rank_is_alone_without_pmi(self):
        for command in (("--mpi=none", MPICH), ("sh", "-c", f"exec {MPICH}")):
            done = self.run_ranks(2, *command)
            self.assertEqual(sorted(done.stdout.splitlines()), [f"rank 0 of 1: sum 0, RANK {rank}" for rank in range(2)],
                             done.stderr)


class OpenMpiOnOneNode(OneNode):
    program = OPEN_MPI
    offer = "--mpi=pmix"
    needs = (OPEN_MPI, PMIX)
    package = "mpicc.openmpi, or no libpmix (Debian: libopenmpi-dev)"

    def test_more_ranks_than_processors_give_way_to_each_other(self):
        done = self.run_ranks(8, OPEN_MPI)
        self.assertEqual(sorted(done.stdout.splitlines()), sums(8), done.stderr)

    def test_nothing_is_left_of_ranks_that_were_killed(self):
        # The ranks' shared memory is in a folder that the job removes, also if TMPDIR is on a disk.
        for variables in ({}, {"TMPDIR": self.dir}):
            done = self.run_dlaunch("--nproc-per-node=2", "--mpi=pmix", "sh", "-c",
                                    f"echo $OMPI_MCA_btl_vader_backing_directory > where.$RANK; exec {OPEN_MPI} die", **variables)
            self.assertEqual(done.returncode, 137, done.stderr)
            folder = self.written("where.0")
            self.assertTrue(folder.startswith("/dev/shm/dlaunch-job-"), folder)
            self.assertFalse(os.path.exists(folder))

    def test_the_folder_of_the_job_stays_at_a_restart(self):
        # A new one of its name would have no lock: to another dlaunch it would be a dead job's, to be removed. A rank whose
        # memory is removed before its peer has found it waits for that peer for ever.
        note = "stat -c %i $(dirname $TORCHELASTIC_ERROR_FILE) > folder.$DLAUNCH_ROUND.$RANK"
        done = self.run_ranks(2, "--max-restarts=1", "--mpi=pmix", "sh", "-c", f"{note}; exec {OPEN_MPI} again")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.written("folder.1.0"), self.written("folder.0.0"))

    def test_an_end_of_the_server_ends_the_job(self):
        # Rank 1 starts MPI only when the server has ended, and rank 0 waits for it.
        script = f"test $RANK = 0 || read line < go; exec {OPEN_MPI}"
        os.mkfifo(os.path.join(self.dir, "go"))
        job = self.start("--nproc-per-node=2", "--mpi=pmix", "sh", "-c", script)
        def servers():
            return [pid for pid in children_of(job.pid) if "dlaunch-pmix\0serve" in command_of(pid)]
        with open(os.path.join(self.dir, "go"), "w", encoding="utf-8") as go:  # rank 1 has been started
            os.kill(servers()[0], signal.SIGKILL)
            go.write("\n")
        _, err = job.communicate(timeout=PATIENCE)
        self.assertNotEqual(job.returncode, 0)
        self.assertIn("the process that serves PMIx has ended", err)

    def test_a_program_that_is_missing_is_named(self):
        done = self.run_ranks(1, "--mpi=pmix", "./missing")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("./missing", summary(done.stderr))


class OpenMpiOnTwoHosts(TwoHosts):
    program = OPEN_MPI
    offer = "--mpi=pmix"
    needs = (OPEN_MPI, PMIX)
    package = "mpicc.openmpi, or no libpmix (Debian: libopenmpi-dev)"

    def test_a_node_that_offers_no_pmix_is_rejected(self):
        port = free_port()
        self.start_node(0, port, OPEN_MPI)
        other = self.start_node(1, port, "--mpi=none", OPEN_MPI)
        _, err = other.communicate(timeout=PATIENCE)
        self.assertNotEqual(other.returncode, 0)
        self.assertIn("--mpi=pmix", summary(err))


if __name__ == "__main__":
    main()

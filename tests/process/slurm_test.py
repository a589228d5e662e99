#!/usr/bin/env python3
"""dlaunch under Slurm: a cluster of this machine (slurm_cluster.py) and the scripts of examples/slurm.

    DLAUNCH_BIN_DIR=build/bin slurm_test.py [Class.test ...]

Every wait is for an event and has a deadline.
"""

import os
import re
import sys
import tempfile
import unittest

from common import BIN, DLAUNCH, main, remedy, summary, wait_until
from slurm_cluster import Cluster, has_cgroups, missing

BUILD = os.path.dirname(os.path.abspath(BIN))
MPI_RANKS = os.path.join(BUILD, "tests", "mpi_ranks")
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "slurm")

FACTS = ('echo "rank $RANK of $WORLD_SIZE, local $LOCAL_RANK of $LOCAL_WORLD_SIZE, node $GROUP_RANK of $GROUP_WORLD_SIZE on $SLURMD_NODENAME, '
         'master $MASTER_ADDR, id $TORCHELASTIC_RUN_ID, task $SLURM_PROCID of $SLURM_NTASKS"')

# A worker that leaves a file with its round, rank and node, and returns 0 once there is a file named "done".
UNTIL_DONE = 'echo > up.$DLAUNCH_ROUND.$RANK.$SLURMD_NODENAME; while [ ! -e done ]; do sleep 0.02; done'

# A worker that saves its state on SIGUSR1 with the other one, and resumes when it finds that.
SAVES = ('if [ -e saved.$RANK ]; then echo > resumed.$RANK.$SLURM_RESTART_COUNT; exit 0; fi; '
         'trap "echo > saved.$RANK; while [ ! -e saved.$((1 - RANK)) ]; do sleep 0.02; done; exit 75" USR1; echo > up.$DLAUNCH_ROUND.$RANK.$SLURMD_NODENAME; while :; do sleep 0.02; done')

# A worker that ends on SIGTERM when it has left a file.
UNTIL_TERM = ('trap "echo > ended.$RANK; exit 0" TERM; echo > up.$DLAUNCH_ROUND.$RANK.$SLURMD_NODENAME; while :; do sleep 0.02; done')


class Slurm(unittest.TestCase):
    """The tests share a cluster, and leave it as they found it."""

    cluster = None
    nodes = 3
    cgroups = False

    @classmethod
    def setUpClass(cls):
        if not missing() and (has_cgroups() or not cls.cgroups):
            cls.cluster = Cluster(cls.nodes, cls.cgroups)
            cls.addClassCleanup(cls.cluster.stop)
            cls.cluster.start()

    def setUp(self):
        if missing():
            self.skipTest(f"there is no {missing()[0]} (Debian: slurmd, slurmctld, slurm-client, munge)")
        if not self.cluster:
            self.skipTest("Slurm cannot use control groups here")
        self.dir = tempfile.mkdtemp(dir=self.cluster.folder)
        self.jobs = []
        self.addCleanup(self.end_jobs)

    def end_jobs(self):
        """Those that a failed test has left, so that the next one finds a free cluster."""
        for job in self.jobs:
            if self.cluster.job(job).get("JobState") not in ("COMPLETED", "FAILED", "CANCELLED"):
                self.cluster.run("scancel", "--signal=KILL", "--full", job)
                self.cluster.run("scancel", job)

    # --- what tests do ---

    def run_here(self, *command, **variables):
        if "--nodes=2" in command:  # the first ones, also if one of them has yet to end an earlier job
            command = (command[0], f"--nodelist={','.join(self.cluster.nodes[:2])}", *command[1:])
        return self.cluster.run(*command, cwd=self.dir, **variables)

    def srun(self, *arguments, **variables):
        """`srun` of one dlaunch on each of two nodes, with these arguments."""
        return self.run_here("srun", "--nodes=2", "--ntasks-per-node=1", DLAUNCH, *arguments, **variables)

    def sbatch(self, *arguments):
        """The number of the submitted job, whose scripts find this dlaunch."""
        path = f"{BIN}:{self.cluster.environment()['PATH']}"
        done = self.run_here("sbatch", "--parsable", "--output=out", "--error=err", *arguments, PATH=path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.jobs.append(done.stdout.strip())
        return done.stdout.strip()

    def example(self, name, *command, options=()):
        return self.sbatch(*options, os.path.join(EXAMPLES, name), *command)

    # --- what tests look at ---

    def read(self, name):
        try:
            with open(os.path.join(self.dir, name), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def touch(self, name):
        with open(os.path.join(self.dir, name), "w", encoding="utf-8"):
            pass

    def files(self, pattern):
        return sorted(name for name in os.listdir(self.dir) if re.fullmatch(pattern, name))

    def wait_for(self, condition, what):
        try:
            wait_until(condition, what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n--- files: {' '.join(sorted(os.listdir(self.dir)))}\n--- out\n{self.read('out')}\n--- err\n{self.read('err')}\n"
                                 + "".join(f"--- job {self.cluster.job(job)}\n" for job in self.jobs) + self.cluster.logs()) from None

    def wait_for_state(self, job, state):
        self.wait_for(lambda: self.cluster.job(job).get("JobState") == state, f"job {job} is {state}")

    def world(self, size, number=0):
        """Waits for all workers of this round or a later one; returns (round, {rank: node})."""
        def newest():
            found = {}
            for name in self.files(r"up\.\d+\.\d+\..*"):
                _, of_round, rank, node = name.split(".")
                found.setdefault(int(of_round), {})[int(rank)] = node
            latest = max(found, default=-1)
            return (latest, found[latest]) if latest >= number and len(found[latest]) == size else None
        self.wait_for(newest, f"{size} workers of round {number}")
        return newest()

    def resume(self, job):
        """The job that has saved its state ends. Slurm would let it wait for two minutes."""
        self.cluster.update(f"JobId={job}", "StartTime=now")
        self.wait_for_state(job, "COMPLETED")
        self.assertEqual(self.files(r"resumed\..*"), ["resumed.0.1", "resumed.1.1"], self.read("err"))

    def facts(self, job, step, per_node=(1, 1)):
        """The lines of FACTS, of a job on the first nodes of the cluster."""
        lines = []
        for node, count in enumerate(per_node):
            lines += [f"rank {len(lines) + local} of {sum(per_node)}, local {local} of {count}, node {node} of {len(per_node)} on {self.cluster.nodes[node]}, "
                      f"master {self.cluster.addresses[0]}, id slurm-{job}.{step}, task {node} of {len(per_node)}" for local in range(count)]
        return lines


class Steps(Slurm):
    def test_srun_gives_nodes_ranks_endpoint_and_id(self):
        done = self.srun("--nproc-per-node=2", "sh", "-c", FACTS)
        self.assertEqual(done.returncode, 0, done.stderr)
        job = re.search(r"Slurm step (\d+)\.0: ", done.stderr).group(1)
        self.assertEqual(sorted(done.stdout.splitlines()), self.facts(job, 0, (2, 2)))
        for rank in range(2):
            self.assertRegex(done.stderr, rf"(?m)^dlaunch: Slurm step {job}\.0: nodes 2, node rank {rank}, master {self.cluster.addresses[0]}, port \d{{5}}, id slurm-{job}\.0$")

    def test_workers_reach_each_other(self):
        done = self.srun("--nproc-per-node=2", os.path.join(BIN, "rank_sum"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(re.findall(r"sum of ranks = 6", done.stdout)), 4, done.stdout)

    # Without dlaunch: srun has started the ranks, and serves PMI to them. One node with PMIx: two on one machine are no step for
    # Slurm's plugin, plain programs of Open MPI neither.
    def test_ranks_of_mpi_are_the_tasks_of_srun(self):
        if not os.path.exists(MPI_RANKS):
            self.skipTest("programs of MPI are not built with sanitizers")
        for module, mpi, nodes in (("mpi_mpich.so", "pmi2", 2), ("mpi_open_mpi.so", "pmix", 1)):
            if not os.path.exists(os.path.join(BUILD, "lib", "dlaunch", module)):
                self.skipTest(f"{module} was not built (Debian: libopenmpi-dev, libmpich-dev)")
            with self.subTest(mpi):
                done = self.run_here("srun", f"--mpi={mpi}", f"--nodes={nodes}", "--ntasks=3", "--cpus-per-task=1",
                                     MPI_RANKS, "worlds")
                self.assertEqual(done.returncode, 0, done.stderr)
                locals_ = (0, 1, 0) if nodes == 2 else (0, 1, 2)
                wanted = [f"world {world}: rank {rank} of 3, local rank {local}, sum 6" for world in range(2) for rank, local in enumerate(locals_)]
                self.assertEqual(sorted(line for line in done.stdout.splitlines() if line.startswith("world")), wanted)

    def test_two_steps_of_a_job_at_once_are_two_dlaunch_jobs(self):
        meet = 'echo > up.$SLURM_STEP_ID.$RANK; while [ $(ls up.* | wc -l) -lt 4 ]; do sleep 0.02; done; echo "$SLURM_STEP_ID $RANK $TORCHELASTIC_RUN_ID $MASTER_PORT"'
        step = f"srun --overlap --nodes=2 --ntasks-per-node=1 {DLAUNCH} sh -c '{meet}' &"
        done = self.run_here("salloc", "--nodes=2", "--ntasks-per-node=1", "sh", "-c", f"{step} {step} wait")
        words = sorted(line.split() for line in done.stdout.splitlines())
        self.assertEqual([word[:2] for word in words], [["0", "0"], ["0", "1"], ["1", "0"], ["1", "1"]], done.stderr)
        self.assertEqual(len({(run, port) for _, _, run, port in words}), 2, words)

    def test_a_batch_script(self):
        job = self.example("fixed.sbatch", "sh", "-c", FACTS)
        self.wait_for_state(job, "COMPLETED")
        self.assertEqual(sorted(self.read("out").splitlines()), self.facts(job, 0, (2, 2)), self.read("err"))

    def test_a_failure_is_named_and_fails_the_job(self):
        job = self.example("fixed.sbatch", "sh", "-c", "[ $RANK = 3 ] && exit 7; exec sleep 1000")
        self.wait_for_state(job, "FAILED")
        self.assertEqual(self.cluster.job(job)["ExitCode"], "7:0")
        self.assertIn("rank 3 (local rank 1, node 1", self.read("err"))

    def test_srun_inside_salloc(self):
        done = self.run_here("salloc", "--nodes=2", "--ntasks-per-node=1", "srun", DLAUNCH, "sh", "-c", FACTS)
        self.assertEqual(done.returncode, 0, done.stderr)
        job = re.search(r"Granted job allocation (\d+)", done.stderr).group(1)
        self.assertEqual(sorted(done.stdout.splitlines()), self.facts(job, 0))

    def test_dlaunch_itself_inside_salloc_is_refused_on_several_nodes(self):
        done = self.run_here("salloc", "--nodes=2", "--ntasks-per-node=1", DLAUNCH, "echo", "started")
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertRegex(done.stderr, r"dlaunch: Slurm job \d+ has 2 nodes, but dlaunch was started on one of them only; start it with srun "
                                      r"--ntasks-per-node=1 dlaunch \.\.\., or give --nnodes=1 to use only this node")
        done = self.run_here("salloc", "--nodes=1", DLAUNCH, "--nproc-per-node=2", "sh", "-c", "echo $RANK of $WORLD_SIZE")
        self.assertEqual((done.returncode, sorted(done.stdout.splitlines())), (0, ["0 of 2", "1 of 2"]), done.stderr)

    def test_nodes_with_different_numbers_of_workers(self):
        uneven = f"exec {DLAUNCH} --nproc-per-node=$((3 - 2 * SLURM_NODEID)) sh -c '{FACTS}'"
        done = self.run_here("srun", "--nodes=2", "--ntasks-per-node=1", "sh", "-c", uneven)
        self.assertEqual(done.returncode, 0, done.stderr)
        job = re.search(r"Slurm step (\d+)\.0: ", done.stderr).group(1)
        self.assertEqual(sorted(done.stdout.splitlines()), self.facts(job, 0, (3, 1)))


class Mistakes(Slurm):
    def test_more_tasks_than_nodes(self):
        """Three tasks on two nodes: on the node with two tasks, the second is refused."""
        done = self.run_here("srun", "--nodes=2", "--ntasks=3", DLAUNCH, "sh", "-c", "echo $RANK of $WORLD_SIZE")
        self.assertEqual((done.returncode, sorted(done.stdout.splitlines())), (2, ["0 of 2", "1 of 2"]), done.stderr)
        self.assertRegex(done.stderr, r"Slurm step \d+\.0 has 3 tasks on 2 nodes: only the first on each node starts workers; use srun --ntasks-per-node=1, "
                                      r"and --nproc-per-node for the workers")
        self.assertRegex(done.stderr, r"Slurm step \d+\.0 started several dlaunch on this node; dlaunch starts the workers itself: use srun --ntasks-per-node=1, "
                                      r"and --nproc-per-node")

    def test_more_nodes_than_the_step_has(self):
        done = self.srun("--nnodes=3", "--join-timeout=1", "true")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"Slurm step \d+\.0 has 2 nodes, but 3 were requested, so its settings are ignored; name the first host with --rdzv-endpoint=HOST:PORT")

    def test_a_node_that_does_not_come_is_named(self):
        only_first = f"[ $SLURM_NODEID = 1 ] || exec {DLAUNCH} --join-timeout=1 true"
        done = self.run_here("srun", "--nodes=2", "--ntasks-per-node=1", "sh", "-c", only_first)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"(?m)^dlaunch: failed: node 1 of 2 did not join at \S+ within 1 s")

    def test_without_an_address_the_reason_is_named(self):
        with open(os.path.join(self.dir, "scontrol"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho 'slurm_load_node error: Unable to contact slurm controller (connect failure)' >&2; exit 1\n")
        os.chmod(os.path.join(self.dir, "scontrol"), 0o755)
        done = self.srun("--join-timeout=1", "true", PATH=f"{self.dir}:{self.cluster.environment()['PATH']}")
        self.assertNotEqual(done.returncode, 0)
        first = self.cluster.nodes[0]
        self.assertIn(f"the first node, {first} (SLURM_STEP_NODELIST), has no address here: DNS and /etc/hosts do not know it, and Slurm gives none (scontrol prints "
                      "'slurm_load_node error: Unable to contact slurm controller (connect failure)'); name the first host with --rdzv-endpoint=HOST:PORT", done.stderr)


class Ends(Slurm):
    def test_scancel_ends_the_workers_in_order(self):
        job = self.example("fixed.sbatch", "sh", "-c", UNTIL_TERM)
        self.world(4)
        self.cluster.run("scancel", job)
        self.wait_for_state(job, "CANCELLED")
        self.wait_for(lambda: not self.cluster.processes_of_job(job), "no process of the job is left")
        self.assertEqual(self.files(r"ended\..*"), [f"ended.{rank}" for rank in range(4)], self.read("err"))

    def test_a_preempted_job_saves_its_state_and_resumes(self):
        job = self.example("preemptible.sbatch", "sh", "-c", SAVES, options=("--cpus-per-task=8",))
        self.world(2)
        self.sbatch("--partition=urgent", "--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=8", "--output=urgent", "--error=urgent", "--wrap=while [ ! -e done ]; do sleep 0.02; done")
        self.wait_for_state(job, "PENDING")
        self.assertEqual(self.files(r"saved\..*"), ["saved.0", "saved.1"], self.read("err"))
        self.assertEqual(self.cluster.job(job)["Restarts"], "1")
        self.touch("done")
        self.resume(job)

    def test_a_spare_takes_the_place_of_a_lost_node(self):
        job = self.example("elastic.sbatch", "sh", "-c", UNTIL_DONE)
        number, before = self.world(2)
        lost = max(before.values())  # not the first, which is the endpoint
        self.addCleanup(self.cluster.repair_node, lost)
        self.cluster.update(f"NodeName={lost}", "State=DRAIN", "Reason=test")
        self.assertIn("DRAIN", self.cluster.node(lost)["State"])
        self.assertEqual(self.world(2), (number, before), "a node that is drained keeps its jobs")
        self.cluster.lose_node(lost)
        _, after = self.world(2, number + 1)
        self.assertNotIn(lost, after.values())
        self.assertEqual({rank: node for rank, node in after.items() if node in before.values()},
                         {rank: node for rank, node in before.items() if node != lost}, "who stays keeps its rank")
        # As Slurm does when the node has been silent for SlurmdTimeout.
        self.cluster.update(f"NodeName={lost}", "State=DOWN", "Reason=test")
        self.assertEqual((self.cluster.job(job)["JobState"], self.cluster.job(job)["Restarts"]), ("RUNNING", "0"))
        self.touch("done")
        self.wait_for_state(job, "COMPLETED")
        self.assertEqual(self.cluster.job(job)["Restarts"], "0")


class TimeLimit(Slurm):
    nodes = 2

    def test_a_job_saves_its_state_before_its_time_limit(self):
        # The limit is one minute, and the signal is due at once: Slurm looks for such jobs twice a minute.
        job = self.example("preemptible.sbatch", "sh", "-c", SAVES, options=("--time=1", "--signal=TERM@60"))
        self.world(2)
        self.wait_for_state(job, "PENDING")
        self.assertEqual(self.files(r"saved\..*"), ["saved.0", "saved.1"], self.read("err"))
        self.resume(job)


class Cgroups(Slurm):
    nodes = 1
    cgroups = True

    def test_the_memory_limit_of_the_job_is_named(self):
        big = "import os, time\nif os.environ['RANK'] == '1':\n  b'x' * (200 << 20)\ntime.sleep(1000)"
        done = self.run_here("srun", "--mem=64", DLAUNCH, "--nproc-per-node=2", sys.executable, "-c", big)
        self.assertNotEqual(done.returncode, 0)
        own = "\n".join(line for line in done.stderr.splitlines() if line.startswith(("dlaunch: ", "  try: ")))  # Slurm's are between them
        self.assertRegex(summary(own), r"dlaunch: failed: rank 1 .* was killed by signal 9 \(SIGKILL\): the kernel's out-of-memory killer "
                                       r"\(limit 64 MiB of cgroup /slurm_\S+/job_\d+\); not restarted")
        self.assertRegex(remedy(own), r"^raise the memory limit of 64 MiB, or start fewer ranks")

    def test_a_signal_to_the_step_reaches_workers_by_dlaunch_alone(self):
        """Slurm's SIGTERM gives them notice: if it reached them too, they would end without saving."""
        job = self.sbatch("--wrap", f"trap '' TERM; srun {DLAUNCH} --nproc-per-node=2 --preempt-signal=USR1@1000 sh -c '{SAVES}'; echo $?")
        self.world(2)
        self.cluster.run("scancel", job)
        self.wait_for_state(job, "CANCELLED")
        self.wait_for(lambda: not self.cluster.processes_of_job(job), "no process of the job is left")
        self.assertEqual((self.files(r"saved\..*"), self.read("out")), (["saved.0", "saved.1"], "143\n"), self.read("err"))


if __name__ == "__main__":
    main()

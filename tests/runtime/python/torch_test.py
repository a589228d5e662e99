#!/usr/bin/env python3
"""Backend dlaunch in PyTorch: every call beside gloo's, training, the death of a rank, and groups that are made again."""

import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../process"))
from common import BIN, DLAUNCH, PATIENCE, TORCH_PYTHON, environment, free_port, main, torch_version  # noqa: E402

RANKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_ranks.py")
PACKAGE = os.path.join(os.path.dirname(BIN), "python")
OLDEST = (2, 9)
REPLACES_GLOO = (2, 14)  # the first whose gloo can be replaced
# An unmodified program. What has no CPU tensor goes to the real gloo, whose error this is.
GLOO = """
import os
import sys
import torch
import torch.distributed as dist

dist.init_process_group(*sys.argv[1:])
total = torch.full((5,), dist.get_rank() + 1.0)
dist.all_reduce(total)
assert total.tolist() == [3.0] * 5
for group in (None, dist.new_group([0, 1], backend="gloo"), dist.new_group([0, 1], backend="cpu:gloo")):
    try:
        if os.environ.get("EXPECTS_NATIVE"):  # PyTorch's C++ would not call its group for a tensor without data
            (group or dist.group.WORLD)._get_backend(torch.device("cpu")).allreduce([torch.ones(3, device="meta")]).wait()
        else:
            dist.all_reduce(torch.ones(3, device="meta"), group=group)
        raise AssertionError("gloo has no such tensors")
    except RuntimeError as error:
        assert "meta" in str(error), error
if sys.argv[1:]:
    assert dist.get_backend() == "gloo"
    dist.monitored_barrier()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
model(torch.ones(2, 4)).sum().backward()
backend = dist.group.WORLD._get_backend(torch.device("cpu"))
print(f"rank {dist.get_rank()} by {backend.name()}")
dist.destroy_process_group()
"""


def missing(oldest=OLDEST):
    """Why there is no PyTorch that can do it, or None."""
    found = torch_version()
    if found is None:
        return f"{TORCH_PYTHON} has no PyTorch"
    if found < oldest:
        return f"PyTorch {found[0]}.{found[1]} of {TORCH_PYTHON} is older than {oldest[0]}.{oldest[1]}, the first that can do this"
    return None


def variables(**more):
    return {**environment(), "PYTHONPATH": PACKAGE, "PYTHONWARNINGS": "ignore", "DLAUNCH_TORCH_EXTENSION": os.environ.get("DLAUNCH_TORCH_EXTENSION", "0"), **more}


class Torch(unittest.TestCase):
    own = {}  # variables

    @classmethod
    def setUpClass(cls):
        if why := missing():
            raise unittest.SkipTest(why)

    def launch(self, ranks, *arguments, flags=(), **more):
        """The job's stdout. It must succeed."""
        job = subprocess.run([DLAUNCH, f"--nproc-per-node={ranks}", *flags, "--no-python", TORCH_PYTHON, RANKS, *arguments],
                             capture_output=True, text=True, timeout=2 * PATIENCE, check=False, env=variables(**self.own, **more))
        self.assertEqual(job.returncode, 0, job.stdout + job.stderr)
        return job.stdout

    def test_each_call_of_two_ranks_gives_what_gloo_gives(self):
        self.assertEqual(self.launch(2, "compare").count("compared"), 2)

    def test_each_call_of_three_ranks_gives_what_gloo_gives(self):
        self.assertEqual(self.launch(3, "compare").count("compared"), 3)

    def test_the_losses_of_data_parallel_training_are_gloos(self):
        self.assertEqual(self.launch(2, "ddp").count("losses agree"), 2)

    def test_tensors_in_memory_of_the_host_are_reduced_in_place(self):
        has_backend = torch_version() >= (2, 14) or "EXPECTS_NATIVE" in self.own
        self.assertEqual(self.launch(2, "memory").count("in place" if has_backend else "no backend"), 2)

    def test_a_group_can_be_made_again_and_of_another_store(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.launch(2, "again", os.path.join(folder, "store")).count("again"), 2)

    def test_works_and_groups_fail_as_they_are_told_to(self):
        self.assertEqual(self.launch(2, "late").count("late"), 2)

    def test_a_program_that_fails_during_an_operation_ends(self):
        job = subprocess.run([DLAUNCH, "--nproc-per-node=2", "--no-python", TORCH_PYTHON, RANKS, "unfinished"], capture_output=True,
                             text=True, timeout=2 * PATIENCE, check=False, env=variables(**self.own))
        self.assertEqual(job.returncode, 1, job.stdout + job.stderr)
        self.assertIn("an error of the program's, completed: False", job.stderr)
        self.assertIn("dlaunch: failed: rank 0 ", job.stderr)

    def test_a_program_that_names_gloo_gets_it_with_accelerate(self):
        if missing(REPLACES_GLOO):
            job = subprocess.run([DLAUNCH, "--accelerate=gloo", "--no-python", TORCH_PYTHON, "-c", "import torch; print('went on')"],
                                 capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment())
            self.assertRegex(job.stderr, r"--accelerate=gloo has no effect: this is PyTorch 2\.[0-9.+a-z]+, and 2\.14 is needed\n")
            self.assertEqual(job.stdout, "went on\n")
            return
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "gloo.py")
            with open(script, "w", encoding="utf-8") as file:
                file.write(GLOO)
            for arguments in (["gloo"], []):
                job = subprocess.run([DLAUNCH, "--nproc-per-node=2", "--accelerate=gloo", "--no-python", TORCH_PYTHON, script,
                                      *arguments], capture_output=True, text=True, timeout=2 * PATIENCE, check=False,
                                     env={**environment(), "PYTHONWARNINGS": "ignore", "DLAUNCH_TORCH_EXTENSION": "0", **self.own})
                self.assertEqual(job.returncode, 0, job.stdout + job.stderr)
                self.assertEqual(sorted(job.stdout.splitlines()), ["rank 0 by dlaunch", "rank 1 by dlaunch"])
                self.assertEqual(job.stderr.count("dlaunch: backend gloo is dlaunch's (--accelerate=gloo)\n"), 1, job.stderr)

    def test_programs_that_do_not_use_it_are_left_alone(self):
        program = ("import torch, torch.distributed as dist; dist.init_process_group('cpu:gloo,cuda:gloo'); "
                   "total = torch.ones(1); dist.all_reduce(total); import sys; "
                   "print('group' if 'dlaunch.library' in sys.modules else 'no library'); dist.destroy_process_group()")
        job = subprocess.run([DLAUNCH, "--no-python", TORCH_PYTHON, "-c", program], capture_output=True, text=True, timeout=PATIENCE,
                             check=False, env=variables(**self.own))
        self.assertEqual((job.returncode, "Warning" in job.stderr), (0, False), job.stderr)
        self.assertIn("no library\n", job.stdout)

    def test_a_killed_rank_is_named_by_all_others(self):
        # Without a launcher, which would stop the others, and with PyTorch's own store.
        port = str(free_port())
        ranks = [subprocess.Popen([TORCH_PYTHON, RANKS, "killed"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  env=variables(**self.own, RANK=str(rank), WORLD_SIZE="3", MASTER_ADDR="127.0.0.1", MASTER_PORT=port))
                 for rank in range(3)]
        try:
            outputs = [rank.communicate(timeout=PATIENCE)[0] for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
        self.assertEqual(ranks[1].returncode, -9, outputs[1])
        for number in (0, 2):
            self.assertEqual(ranks[number].returncode, 0, outputs[number])
            self.assertIn(f"rank {number} again: ", outputs[number])
            self.assertIn(f"rank {number} has seen it", outputs[number])


class Native(Torch):
    """The same with the backend in C++."""

    # Kept, since each test is a process of its own.
    own = {"DLAUNCH_TORCH_EXTENSION": "1", "EXPECTS_NATIVE": "1", "XDG_CACHE_HOME": os.path.join(os.path.dirname(BIN), "torch-cache")}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        built = cls.build(**cls.own)
        if built.returncode:
            raise AssertionError(built.stdout + built.stderr)

    @staticmethod
    def build(*arguments, **more):
        return subprocess.run([TORCH_PYTHON, "-m", "dlaunch.torch.extension", *arguments], capture_output=True, text=True, timeout=2 * PATIENCE,
                              check=False, env=variables(**more))

    def test_what_observes_or_replaces_operations_sees_them(self):
        self.assertEqual(self.launch(2, "observed").count("observed"), 2)

    def test_what_building_needs_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            built = self.build(XDG_CACHE_HOME=folder, CXX="not-a-compiler")
            self.assertEqual((built.returncode, built.stderr),
                             (1, "dlaunch: the extension cannot be built: there is no C++ compiler not-a-compiler: install one (g++), or name it in CXX\n"))
            built = self.build(XDG_CACHE_HOME=folder, CXX="false")
            self.assertIn("the compiler failed with code 1 (see above). Backend dlaunch works without it\n", built.stderr)
            self.assertEqual(os.listdir(os.path.join(folder, "dlaunch/torch-extension")), [])

    def test_it_is_built_once_and_can_be_removed(self):
        again = self.build(**self.own)
        self.assertRegex(again.stdout, r"^dlaunch: /.*\.so was there already: backend dlaunch uses it with PyTorch 2\.")
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "dlaunch/torch-extension"))
            self.assertEqual(self.build("--remove", XDG_CACHE_HOME=folder).returncode, 0)
            self.assertEqual(os.listdir(os.path.join(folder, "dlaunch")), [])


if __name__ == "__main__":
    main()

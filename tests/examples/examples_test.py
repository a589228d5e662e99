#!/usr/bin/env python3
"""The examples as a newcomer runs them: under dlaunch, real processes, real data.

    DLAUNCH_BIN_DIR=build/bin examples_test.py [Class.test ...]

Nothing here waits for a time or measures one: a run ends or CTest ends it.
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BIN = os.path.abspath(os.environ["DLAUNCH_BIN_DIR"])
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.path.join(SOURCE, "examples", "data", "mnist")

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(SOURCE, "examples", "data"))
import make_subset  # noqa: E402, pylint: disable=wrong-import-position


class Run:
    """A finished program: code, out, err."""

    def __init__(self, arguments, tmpdir, **variables):
        # As from a shell that no launcher has touched, with a temporary directory of the test's own.
        environment = {key: value for key, value in os.environ.items()
                       if not key.startswith(("TORCHELASTIC_", "DLAUNCH_", "MASTER_"))
                       and key not in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "TRAIN_MNIST_DATA")}
        environment.update(TMPDIR=tmpdir, **variables)
        done = subprocess.run(arguments, env=environment, cwd=tmpdir, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False)
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    def __str__(self):
        return f"exit code {self.code}\n--- stdout\n{self.out}--- stderr\n{self.err}---"


class Example(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="dlaunch_examples_test.")
        self.addCleanup(shutil.rmtree, self.dir)

    def alone(self, program, *arguments):
        return Run([os.path.join(BIN, program), *arguments], self.dir)

    def launched(self, workers, program, *arguments, restarts=0, **variables):
        launcher = [os.path.join(BIN, "dlaunch"), f"--nproc-per-node={workers}"]
        if restarts:
            launcher.append(f"--max-restarts={restarts}")
        if not os.path.isabs(program):
            program = os.path.join(BIN, program)
        return Run([*launcher, program, *arguments], self.dir, **variables)

    def path(self, name):
        return os.path.join(self.dir, name)


class Small(Example):
    def test_hello_does_nothing_well(self):
        run = self.launched(4, "hello")
        self.assertEqual((run.code, run.out), (0, ""), run)

    def test_rank_sum_in_both_languages(self):
        for program in ("rank_sum", "rank_sum_c"):
            run = self.launched(4, program)
            self.assertEqual(run.code, 0, run)
            self.assertEqual(sorted(re.findall(r"rank \d of 4: sum of ranks = \d+", run.out)),
                             [f"rank {rank} of 4: sum of ranks = 6" for rank in range(4)], run)


class Library(Example):
    """Programs that show one part of libdlaunch each, on several numbers of ranks."""

    def outputs(self, workers, program, **variables):
        run = self.launched(workers, program, **variables)
        self.assertEqual((run.code, run.err), (0, ""), run)
        return run.out.splitlines()

    def test_collectives_tour(self):
        self.assertEqual(
            [line.split(None, 1) for line in self.outputs(1, "collectives_tour")][0], ["all_gather", "1"])
        lines = [" ".join(line.split()) for line in self.outputs(3, "collectives_tour")]
        self.assertEqual(lines, [
            "all_gather 1 2 3", "all_gather, unequal 2 2 2", "gather to 0 1 2 3", "scatter from 0 1", "broadcast from last 3",
            "all_reduce 6", "reduce max to 0 3", "reduce_scatter 3", "reduce_scatter product 1",
            "all_to_all 0 10 20", "all_to_all, and back 0 1 2",
            "all_reduce, 2 tensors 3 30", "all_gather, 2 tensors 0 1 2 0 -1 -2", "reduce_scatter, 2 0 0",
            "all_gather_object worker 2", "scatter_object_list worker 0", "broadcast_object_list and worker 2",
            "all 3 ranks came through"])

    def test_ring_all_reduce(self):
        for workers in (1, 2, 3, 4):
            lines = self.outputs(workers, "ring_all_reduce")
            self.assertEqual(sorted(lines), [f"rank {rank} of {workers}: the ring and all_reduce agree"
                                             for rank in range(workers)])

    def test_pipeline(self):
        for workers in (1, 2, 3):
            self.assertEqual(self.outputs(workers, "pipeline"),
                             [f"8 batches went through {workers} stages: right"])

    def test_parameter_server(self):
        for workers in (2, 3):
            self.assertEqual(sorted(self.outputs(workers, "parameter_server")), [
                f"ps: {200 * (workers - 1)} gradients from {workers - 1} trainers",
                *(f"trainer{rank}: after 200 steps y = 2.01 x + 0.96" for rank in range(1, workers))])

    def test_mesh_2x2(self):
        self.assertEqual(sorted(self.outputs(4, "mesh_2x2")), [
            "rank 0 at (0, 0): result 3 6 9 12, gradient 4.5 9",
            "rank 1 at (0, 1): result 3 6 9 12, gradient 13.5 18",
            "rank 2 at (1, 0): result 6 12 18 24, gradient 4.5 9",
            "rank 3 at (1, 1): result 6 12 18 24, gradient 13.5 18"])

    def test_mesh_needs_four(self):
        run = self.launched(2, "mesh_2x2")
        self.assertNotEqual(run.code, 0, run)
        self.assertIn("a device mesh of shape [2, 2]: it does not have as many places as there are ranks (2)", run.err, run)

    def test_data_parallel_does_not_depend_on_the_number_of_ranks(self):
        alone = self.outputs(1, "data_parallel")
        self.assertEqual(len(alone), 5, alone)
        losses = [float(line.split()[-1]) for line in alone[:4]]
        self.assertLess(losses[-1], losses[0] / 2, alone)
        self.assertTrue(alone[4].startswith("1 ranks, 6 parameters in "), alone)
        for ranks in (2, 4):
            others = [float(line.split()[-1]) for line in self.outputs(ranks, "data_parallel")[:4]]
            for other, loss in zip(others, losses, strict=True):
                self.assertAlmostEqual(other, loss, delta=0.002)

    def test_overlap_and_its_trace(self):
        lines = self.outputs(2, "overlap", DLAUNCH_TRACE=self.path("trace.json"))
        self.assertEqual(sorted(lines), [f"rank {rank} of 2: 12 gradients in 5 operations, right"
                                         for rank in range(2)])
        for rank in range(2):
            with open(self.path(f"trace.rank{rank}.json"), encoding="utf-8") as file:
                events = json.load(file)
            names = [event["name"] for event in events if event["ph"] == "X"]
            self.assertEqual(sorted(names), ["all_reduce"] * 4 + ["all_reduce_coalesced"])
            self.assertTrue(all(event["pid"] == rank for event in events))
            self.assertTrue(all(event["args"]["success"] for event in events if event["ph"] == "X"))


class OutOfTree(Example):
    """What is installed is enough to build against."""

    def setUp(self):
        super().setUp()
        self.prefix = self.path("prefix")
        self.succeed("cmake", "--install", os.path.dirname(BIN), "--prefix", self.prefix)

    def succeed(self, *command, **variables):
        run = Run(command, self.dir, **variables)
        self.assertEqual(run.code, 0, run)
        return run.out

    def library_folder(self):
        (found,) = glob.glob(os.path.join(self.prefix, "lib", "**", "libdlaunch.so"), recursive=True)
        return os.path.dirname(found)

    def test_a_backend_of_somebody_else(self):
        build = self.path("build")
        self.succeed("cmake", "-S", os.path.join(SOURCE, "examples", "backend_solo"), "-B", build,
                     "-DCMAKE_PREFIX_PATH=" + self.prefix)
        self.succeed("cmake", "--build", build)
        program = os.path.join(build, "try_solo")
        self.assertEqual(self.succeed(program, DLAUNCH_BACKEND_PATH=build), "solo: 1 2 3\n")
        run = Run([program], self.dir)  # nobody says where the module is
        self.assertEqual(run.code, 1, run)
        self.assertIn("unknown backend 'solo': known backends: ", run.err, run)

    def test_a_c_program_through_pkg_config(self):
        folder = os.path.join(self.library_folder(), "pkgconfig")
        flags = self.succeed("pkg-config", "--cflags", "--libs", "dlaunch", PKG_CONFIG_PATH=folder).split()
        program = self.path("rank_sum_c")
        self.succeed("cc", os.path.join(SOURCE, "examples", "rank_sum_c.c"), "-o", program, *flags,
                     "-Wl,-rpath," + self.library_folder())
        run = Run([os.path.join(self.prefix, "bin", "dlaunch"), "--nproc-per-node=2", program], self.dir)
        self.assertEqual(run.code, 0, run)
        self.assertIn("rank 1 of 2: sum of ranks = 1", run.out, run)

    def test_what_is_installed_finds_its_program_for_tls(self):
        run = Run([os.path.join(self.prefix, "bin", "dlaunch"), "--tls", "sh", "-c", "readlink /proc/$PPID/exe"], self.dir,
                  DLAUNCH_TOKEN="secret")
        if "built without OpenSSL" in run.err:
            self.skipTest("there is no OpenSSL")
        self.assertEqual((run.code, run.out), (0, os.path.join(self.library_folder(), "dlaunch", "dlaunch") + "\n"), run)


class PyTorch(Example):
    def test_ddp_script_runs_as_it_is(self):
        python = python_with_torch()
        if python is None:
            self.skipTest("no python3 here has PyTorch (Debian: python3-torch)")
        run = self.launched(2, os.path.join(SOURCE, "examples", "pytorch_ddp.py"), PYTHON_EXEC=python)
        self.assertEqual(run.code, 0, run)
        losses = [float(loss) for loss in re.findall(r"epoch \d/\d: loss ([0-9.]+)", run.out)]
        self.assertEqual(len(losses), 4, run)
        self.assertLess(losses[-1], losses[0], run)
        self.assertIn("world size 2: same parameters everywhere", run.out, run)


class Training(Example):
    """What tests of train_mnist need."""

    def little_data(self, images=3000):
        directory = self.path("little")
        os.mkdir(directory)
        for name, count in ("train", images), ("t10k", 500):
            for kind, magic, dimensions in (("images-idx3", make_subset.IMAGES_MAGIC, 3),
                                            ("labels-idx1", make_subset.LABELS_MAGIC, 1)):
                file = f"{name}-{kind}-ubyte.gz"
                (total, *rest), payload = make_subset.read(os.path.join(DATA, file), magic, dimensions)
                make_subset.write(os.path.join(directory, file), magic, (count, *rest),
                                  payload[: len(payload) // total * count])
        return "--data=" + directory

    def accuracy(self, run, workers, epochs="2 epochs"):
        """From the last line, which has to look as people are promised."""
        self.assertEqual(run.code, 0, run)
        last = run.out.splitlines()[-1]
        plural = "s" if workers > 1 else ""
        found = re.search(rf"test accuracy: (\d+\.\d\d) % after {epochs} \({workers} worker{plural}, [\d.]+ s\)$",
                          last)
        self.assertIsNotNone(found, run)
        return float(found.group(1))

    def fingerprint(self, run):
        found = re.search(r"parameters ([0-9a-f]{16}), the same on every worker", run.out)
        self.assertIsNotNone(found, run)
        return found.group(1)

    def fails_alone(self, run, code, message):
        """This exit code, no output but one line on stderr, which begins so."""
        self.assertEqual((run.code, run.out, run.err.count("\n")), (code, "", 1), run)
        self.assertTrue(run.err.startswith("train_mnist: " + message), run)

    def fails_launched(self, run, message):
        """Not 0, and the reason is among the lines on stderr."""
        self.assertNotEqual(run.code, 0, run)
        self.assertIn("train_mnist: " + message, run.err, run)


class TrainMnist(Training):
    """Most tests train on a little of the data: enough to take every step, not to learn much."""

    def learns(self, workers):
        run = self.launched(workers, "train_mnist", "--epochs=2")
        self.assertGreaterEqual(self.accuracy(run, workers), 95.0, run)
        self.assertEqual(len(re.findall(r"epoch \d/2: loss ", run.out)), 2, run)
        self.assertEqual(os.listdir(self.dir), [], "the job's own checkpoint is still there")

    def test_one_worker_learns(self):
        self.learns(1)

    def test_two_workers_learn(self):
        self.learns(2)

    def test_four_workers_learn(self):
        self.learns(4)

    def test_three_workers_share_a_batch_of_100(self):
        self.accuracy(self.launched(3, "train_mnist", self.little_data()), 3)

    def test_more_workers_than_images_in_a_batch(self):
        self.accuracy(self.launched(3, "train_mnist", self.little_data(100), "--batch-size=2", "--lr=0.01"), 3)

    def test_runs_without_a_launcher(self):
        data = self.little_data()
        alone = self.alone("train_mnist", data)
        self.accuracy(alone, 1)
        self.assertIn("training alone", alone.out, alone)
        self.assertEqual(os.listdir(self.dir), ["little"])
        # One worker's arithmetic is the same with a launcher.
        self.assertEqual(self.fingerprint(alone), self.fingerprint(self.launched(1, "train_mnist", data)))

    def test_heals_to_the_same_bits(self):
        data = self.little_data()
        undisturbed = self.launched(4, "train_mnist", data, restarts=1)
        healed = self.launched(4, "train_mnist", data, "--fail-at-step=45", restarts=1)
        self.assertIn("rank 3 dies at step 45", healed.err, healed)
        self.assertIn("resuming from epoch 1 (checkpoint ", healed.out, healed)
        self.assertEqual(len(re.findall(r"epoch 1/2: ", healed.out)), 1, healed)  # not trained again
        self.assertEqual(self.fingerprint(undisturbed), self.fingerprint(healed))
        self.assertEqual(self.accuracy(undisturbed, 4), self.accuracy(healed, 4))
        self.assertEqual(os.listdir(self.dir), ["little"])

    def test_heals_from_the_start_where_there_is_no_checkpoint(self):
        data = self.little_data()
        healed = self.launched(2, "train_mnist", data, "--fail-at-step=1", "--fail-rank=0", restarts=1)
        self.assertIn("rank 0 dies at step 1", healed.err, healed)
        self.assertEqual(self.fingerprint(healed), self.fingerprint(self.launched(2, "train_mnist", data)))

    def test_fails_where_no_restart_is_allowed(self):
        run = self.launched(2, "train_mnist", self.little_data(), "--fail-at-step=10")
        self.fails_launched(run, "rank 1 dies at step 10, as --fail-at-step asks")
        self.assertNotIn("test accuracy:", run.out, run)

    def test_goes_on_from_a_kept_checkpoint(self):
        data = self.little_data()
        path = self.path("kept")
        first = self.launched(2, "train_mnist", data, "--epochs=1", "--checkpoint=" + path)
        self.accuracy(first, 2, "1 epoch")
        second = self.launched(2, "train_mnist", data, "--checkpoint=" + path)
        self.assertIn(f"resuming from epoch 1 (checkpoint {path})", second.out, second)
        third = self.launched(2, "train_mnist", data, "--checkpoint=" + path)
        self.assertIn(f"nothing to train: 2 epochs done already (checkpoint {path})", third.out, third)
        self.assertEqual(self.accuracy(third, 2), self.accuracy(second, 2))
        self.assertEqual(self.fingerprint(third), self.fingerprint(second))
        self.assertEqual(self.fingerprint(self.launched(2, "train_mnist", data)), self.fingerprint(second))
        self.assertEqual(sorted(os.listdir(self.dir)), ["kept", "little"])

    def test_truncated_checkpoint(self):
        data = self.little_data()
        path = self.path("broken")
        self.accuracy(self.alone("train_mnist", data, "--epochs=1", "--checkpoint=" + path), 1, "1 epoch")
        size = os.path.getsize(path)
        os.truncate(path, size - 1)
        message = f"cannot use checkpoint {path}: truncated: {size - 1} of {size} bytes"
        self.fails_alone(self.alone("train_mnist", data, "--checkpoint=" + path), 1, message)
        self.fails_launched(self.launched(2, "train_mnist", data, "--checkpoint=" + path), message)

    def test_checkpoint_of_another_run(self):
        data = self.little_data()
        path = self.path("other")
        self.accuracy(self.alone("train_mnist", data, "--epochs=1", "--checkpoint=" + path), 1, "1 epoch")
        self.fails_alone(self.alone("train_mnist", data, "--seed=9", "--checkpoint=" + path), 1,
                         f"cannot use checkpoint {path}: it is of a run with seed 1, this one has 9")
        self.fails_alone(self.alone("train_mnist", "--checkpoint=" + path), 1,
                         f"cannot use checkpoint {path}: it is of a run with a number of training images of 3000")

    def test_workers_with_different_command_lines(self):
        # What two hosts do when somebody changed the command on one of them only.
        run = self.launched(2, "/bin/sh", "-c", 'exec "$0" --seed="$RANK"', os.path.join(BIN, "train_mnist"))
        self.fails_launched(run, "the command line or the data set of rank 1 differ from those of rank 0")

    def test_an_accident_that_never_comes(self):
        run = self.alone("train_mnist", self.little_data(), "--fail-at-step=61")
        self.accuracy(run, 1)
        self.assertIn("--fail-at-step=61 never comes: this run ends after 60 steps", run.out, run)

    def test_corrupt_data(self):
        data = self.little_data()
        images = self.path("little/train-images-idx3-ubyte.gz")
        os.truncate(images, os.path.getsize(images) // 2)
        message = f"cannot read {images}: truncated: "
        self.fails_alone(self.alone("train_mnist", data), 1, message)
        run = self.launched(2, "train_mnist", data)
        self.fails_launched(run, message)
        self.assertEqual(run.out, "", run)  # nobody began

    def test_missing_data(self):
        nowhere = self.path("nowhere")
        self.fails_alone(self.alone("train_mnist", "--data=" + nowhere), 1,
                         f"cannot read {nowhere}/train-images-idx3-ubyte.gz: No such file or directory")

    def test_checkpoint_that_cannot_be_written(self):
        nowhere = self.path("nowhere")
        self.fails_alone(self.alone("train_mnist", f"--checkpoint={nowhere}/x"), 1,
                         f"cannot write checkpoint {nowhere}/x: {nowhere}: No such file or directory")

    def test_wrong_command_lines(self):
        self.fails_alone(self.alone("train_mnist", "--epoch=2"), 2, "unknown argument '--epoch=2'; see --help")
        self.fails_alone(self.alone("train_mnist", "--epochs=0"), 2, "--epochs=0 is not a number in its range")
        self.fails_alone(self.alone("train_mnist", "--fail-at-step=1", "--fail-rank=4"), 2,
                         "--fail-rank=4 does not exist: the only worker is rank 0")

    def test_backends(self):
        data = self.little_data()
        run = self.launched(2, "train_mnist", data, "--backend=shm")
        self.assertEqual(self.fingerprint(run), self.fingerprint(self.launched(2, "train_mnist", data, "--backend=gloo")))
        run = self.launched(2, "train_mnist", data, "--backend=nothing")
        self.assertRegex(run.err, r"train_mnist: rank \d, init_process_group: unknown backend 'nothing'", run)

    def test_a_build_without_cuda_says_so(self):
        # The program alone, as a build without CUDA's compiler makes it: no module beside it.
        os.mkdir(self.path("bin"))
        program = shutil.copy(os.path.join(BIN, "train_mnist"), self.path("bin"))
        lib = os.path.join(os.path.dirname(BIN), "lib")
        message = (f"--device=cuda: this build of train_mnist has no CUDA, {self.dir}/lib/train_mnist_cuda.so is not there; build it "
                   "where CMake finds nvcc and cuBLAS (CUDACXX, CUDA_HOME), or use --device=cpu\n")
        self.fails_alone(Run([program, "--device=cuda"], self.dir, LD_LIBRARY_PATH=lib), 1, message)
        run = self.launched(3, program, "--device=cuda", LD_LIBRARY_PATH=lib)
        self.fails_launched(run, message)
        self.assertEqual(len(re.findall("^train_mnist: ", run.err, re.MULTILINE)), 1, run)  # the others wait, and are stopped

    def test_cuda_without_a_gpu(self):
        if not os.path.exists(os.path.join(os.path.dirname(BIN), "lib", "train_mnist_cuda.so")):
            self.skipTest("this build has no CUDA")
        run = Run([os.path.join(BIN, "train_mnist"), "--device=cuda"], self.dir, CUDA_VISIBLE_DEVICES="")
        self.fails_alone(run, 1, "--device=cuda: ")
        self.assertRegex(run.err, "(there is no usable GPU: .+; nvidia-smi shows .+; |cannot load its module: .+; LD_LIBRARY_PATH must .+, )"
                                  r"or use --device=cpu\n$", run)

    def test_help(self):
        run = self.alone("train_mnist", "--help")
        self.assertEqual((run.code, run.err), (0, ""))
        self.assertIn("--checkpoint=FILE", run.out)


def python_with_torch():
    for python in (os.environ.get("DLAUNCH_TORCH_PYTHON"), os.environ.get("PYTHON_EXEC"), "/usr/bin/python3", "python3"):
        if python and shutil.which(python) and subprocess.run(
                [python, "-c", "import torch.distributed as d; raise SystemExit(not d.is_gloo_available())"],
                capture_output=True, check=False).returncode == 0:
            return python
    return None


if __name__ == "__main__":
    program = unittest.main(exit=False)
    if not program.result.wasSuccessful():
        sys.exit(1)
    if program.result.skipped and len(program.result.skipped) == program.result.testsRun:
        sys.exit(77)  # CTest's "skipped"

#!/usr/bin/env python3
"""train_mnist on this machine's GPUs: what it prints agrees with what it prints on the CPU.

    DLAUNCH_BIN_DIR=build/bin train_mnist_gpu_test.py [Class.test ...]

DLAUNCH_GPU_LIBRARIES names the folders of CUDA's runtime, cuBLAS and NCCL, if the loader does not find them.
"""

import os
import re
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "runtime", "cuda")]
import gpus  # noqa: E402, pylint: disable=wrong-import-position
from examples_test import BIN, Training  # noqa: E402, pylint: disable=wrong-import-position

MODULE = os.path.join(os.path.dirname(BIN), "lib", "train_mnist_cuda.so")


class OnAGpu(Training):
    def setUp(self):
        if not os.path.exists(MODULE):
            self.skipTest("this build has no CUDA: CMake found no nvcc and cuBLAS")
        if gpus.count() == 0:
            self.skipTest("there is no GPU: nvidia-smi lists none")
        super().setUp()

    def on_gpu(self, ranks, *arguments, restarts=0):
        """Trains there; ranks share GPUs if there are too few, which NCCL allows since 2.30."""
        run = self.launched(ranks, "train_mnist", "--device=cuda", *arguments, restarts=restarts, **gpus.variables(ranks))
        if missing := re.search("ranks . and . use one GPU.*", run.err):
            self.skipTest(missing.group() + ", which NCCL allows since 2.30")
        self.assertEqual(run.code, 0, run)
        self.assertRegex(run.out, r"rank 0 trains on cuda:0, \S", run)
        return run

    def losses(self, run):
        return [float(loss) for loss in re.findall(r"epoch \d+/\d+: loss ([\d.]+), ", run.out)]

    def agrees(self, ranks, *arguments):
        """A GPU adds in another order and does nothing else; what that changes grows from step to step. 20 steps, then 500."""
        data = self.little_data(images=1000)
        self.compare(self.on_gpu(ranks, data, *arguments), self.launched(ranks, "train_mnist", data), ranks, 1e-3, 0.4)
        gpu = self.on_gpu(ranks, *arguments)
        self.compare(gpu, self.launched(ranks, "train_mnist"), ranks, 0.02, 0.5)
        self.assertEqual(self.fingerprint(gpu), self.fingerprint(self.on_gpu(ranks, *arguments)))  # the same bits every time

    def compare(self, gpu, cpu, ranks, of_loss, of_accuracy):
        self.assertEqual(len(self.losses(gpu)), 2, gpu)
        for ours, others in zip(self.losses(gpu), self.losses(cpu), strict=True):
            self.assertAlmostEqual(ours, others, delta=of_loss * others + 1e-4)
        self.assertAlmostEqual(self.accuracy(gpu, ranks), self.accuracy(cpu, ranks), delta=of_accuracy)

    def test_one_rank_on_a_gpu(self):
        self.agrees(1)

    def test_2_ranks_over_nccl_on_a_gpu(self):
        self.agrees(2, "--backend=nccl")

    def test_2_ranks_over_gloo_on_a_gpu(self):
        self.agrees(2, "--backend=gloo")

    def test_2_ranks_over_shm_on_a_gpu(self):
        self.agrees(2, "--backend=shm")

    def test_more_images_than_the_memory_for_one_piece_on_a_gpu(self):
        """A step on 10,000 images is computed in pieces; the same sums as on the CPU."""
        arguments = "--epochs=1", "--batch-size=10000"
        gpu, cpu = self.losses(self.on_gpu(1, *arguments)), self.losses(self.launched(1, "train_mnist", *arguments))
        self.assertAlmostEqual(gpu[0], cpu[0], delta=1e-3 * cpu[0])

    def test_heals_to_the_same_bits_on_a_gpu(self):
        data = self.little_data()
        undisturbed = self.on_gpu(2, data, restarts=1)
        healed = self.on_gpu(2, data, "--fail-at-step=45", restarts=1)
        self.assertIn("rank 1 dies at step 45", healed.err, healed)
        self.assertIn("resuming from epoch 1 (checkpoint ", healed.out, healed)
        self.assertEqual(self.fingerprint(undisturbed), self.fingerprint(healed))

    def test_goes_on_from_a_checkpoint_of_the_cpu_on_a_gpu(self):
        data = self.little_data()
        path = self.path("kept")
        self.accuracy(self.launched(1, "train_mnist", data, "--epochs=1", "--checkpoint=" + path), 1, "1 epoch")
        gpu = self.on_gpu(1, data, "--checkpoint=" + path)
        self.assertIn(f"resuming from epoch 1 (checkpoint {path})", gpu.out, gpu)
        self.assertAlmostEqual(self.losses(gpu)[0], self.losses(self.launched(1, "train_mnist", data))[1], delta=1e-3)


if __name__ == "__main__":
    program = unittest.main(exit=False)
    if not program.result.wasSuccessful():
        sys.exit(1)
    if program.result.skipped and len(program.result.skipped) == program.result.testsRun:
        sys.exit(77)  # CTest's "skipped"

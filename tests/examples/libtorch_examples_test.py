#!/usr/bin/env python3
"""The examples over LibTorch as a newcomer runs them.

    DLAUNCH_BIN_DIR=build/bin libtorch_examples_test.py [Class.test ...]
"""

import os
import re
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from examples_test import Training  # noqa: E402, pylint: disable=wrong-import-position


class LibTorch(Training):
    def losses(self, run):
        self.assertEqual(run.code, 0, run)
        return [float(loss) for loss in re.findall(r"^epoch \d+: loss ([\d.]+)$", run.out, flags=re.MULTILINE)]

    def test_the_tutorial_learns_on_its_own_processes(self):
        run = self.alone("mnist_tutorial", "2", "3", self.little_data(2000).removeprefix("--data="))
        self.assertEqual(run.code, 0, run)
        for rank in (0, 1):
            losses = [float(loss) for loss in re.findall(rf"Rank {rank}, epoch \d: ([\d.]+)", run.out)]
            self.assertEqual(len(losses), 3, run)
            self.assertLess(losses[2], losses[0], run)

    def test_training_learns(self):
        run = self.launched(2, "train_mnist_torch", "--epochs=3", self.little_data())
        losses = self.losses(run)
        self.assertEqual(len(losses), 3, run)
        self.assertLess(losses[2], 0.6 * losses[0], run)
        self.assertGreater(float(re.search(r"accuracy ([\d.]+) %", run.out).group(1)), 80, run)

    def test_a_wrong_number_is_an_error_that_names_its_option(self):
        for wrong in ("--epochs=abc", "--batch-size=0", "--fail-in-epoch="):
            run = self.alone("train_mnist_torch", wrong)
            self.assertNotEqual(run.code, 0, run)
            self.assertIn(f"train_mnist_torch: {wrong} is not a number in its range", run.err)

    def test_a_rank_that_dies_in_backward_costs_one_epoch(self):
        data, checkpoint = self.little_data(1000), "--checkpoint=" + self.path("net.pt")
        run = self.launched(3, "train_mnist_torch", "--epochs=3", "--fail-in-epoch=1", data, checkpoint, restarts=1)
        self.assertEqual(len(self.losses(run)), 3, run)
        self.assertEqual(run.out.count("going on after epoch 1 with 3 ranks"), 1, run)
        self.assertIn("was killed by signal 9 (SIGKILL)", run.err)
        # With another number of ranks, and after the end.
        run = self.launched(2, "train_mnist_torch", "--epochs=4", data, checkpoint)
        self.assertEqual(len(self.losses(run)), 1, run)
        self.assertIn("going on after epoch 3 with 2 ranks", run.out)
        self.assertEqual(sorted(os.listdir(self.dir)), ["little", "net.pt"])

    def failing(self, failure):
        """Of three ranks the last one fails in the second epoch."""
        run = self.launched(3, "train_mnist_torch", "--epochs=3", "--fail-in-epoch=1", f"--failure={failure}", self.little_data(600),
                            "--checkpoint=" + self.path("net.pt"), restarts=1)
        self.assertEqual(len(self.losses(run)), 3, run)
        self.assertEqual(run.out.count("going on after epoch 1 with 3 ranks"), 1, run)
        self.assertRegex(run.err, r"restarting all 3 workers \(restart 1 of 1\) because rank 2 \(.*\) exited with code 1", run)
        return re.search(r"the last lines that rank 2 wrote to stderr:\n  \| train_mnist_torch: (.*)$", run.err, flags=re.MULTILINE)

    def test_a_hook_that_throws_costs_one_epoch(self):
        self.assertEqual(self.failing("hook").group(1), "the communication hook has failed")

    def test_a_rank_without_memory_costs_one_epoch(self):
        self.assertRegex(self.failing("memory").group(1), "you tried to allocate 1125899906842624 bytes")

    def numbers(self, run):
        """What it prints: {"replica 0 step 1 loss": [0.5], ...}"""
        self.assertEqual((run.code, run.err), (0, ""), run)
        lines = [re.fullmatch(r"(replica \d step \d \S+) (.+)", line) for line in run.out.splitlines()]
        return {line.group(1): [float(number) for number in line.group(2).split()] for line in lines}

    def test_a_divided_model_with_replicas_has_the_gradients_of_a_whole_one(self):
        alone = self.numbers(self.launched(1, "mesh_2x2_torch"))
        self.assertEqual([len(values) for values in alone.values()], 3 * [1, 24, 6, 18, 3, 16, 4])
        self.assertLess(alone["replica 0 step 3 loss"], alone["replica 0 step 1 loss"])
        for ranks in (2, 4):  # two parts of one replica, of two replicas
            others = self.numbers(self.launched(ranks, "mesh_2x2_torch"))
            self.assertEqual(len(others), ranks // 2 * len(alone))
            for name, values in others.items():
                for value, wanted in zip(values, alone[name.replace("replica 1", "replica 0")], strict=True):
                    self.assertAlmostEqual(value, wanted, delta=1e-6, msg=name)

    def lines(self, workers, program):
        run = self.launched(workers, program)
        self.assertEqual((run.code, run.err), (0, ""), run)
        return run.out.splitlines()

    def test_the_documented_remote_calls(self):
        ones = 3 * [" 1  1  1"] + ["[ CPUFloatType{3,3} ]"]
        pair = "[ CPUFloatType{2} ]"
        self.assertEqual(self.lines(2, "rpc_tour_torch"), [
            "rpc_sync:", " 4", " 4", pair, "rpc_async:", " 5", " 5", pair, "remote:", " 6", " 6", pair,
            "gradient of t1:", *ones, "gradient of t2:", *ones,
            "RemoteModule: [128, 30]", "DistributedOptimizer: the loss falls"])

    def test_a_pipeline_by_remote_calls_trains_as_one_process(self):
        lines = self.lines(3, "rpc_pipeline_torch")
        self.assertEqual(lines[5:], ["the parameters are the same"])
        for step, line in enumerate(lines[:5], 1):
            found = re.fullmatch(rf"step {step}: loss ([\d.]+), in one process ([\d.]+)", line)
            self.assertAlmostEqual(float(found.group(1)), float(found.group(2)), delta=1e-4)

    def test_a_parameter_server_with_autograd(self):
        for workers in (2, 3):
            self.assertEqual(sorted(self.lines(workers, "parameter_server_torch")), [
                f"ps: {60 * (workers - 1)} steps",
                *(f"trainer{rank}: the loss is small after 60 steps" for rank in range(1, workers))])

    def test_an_agent_answers_all_observers_at_once(self):
        for workers in (2, 4):
            self.assertEqual(self.lines(workers, "reinforcement_torch"), [
                f"{400 * (workers - 1)} moves of {workers - 1} observers in 400 batches", "the agent has learned"])

    def test_data_parallel_layers_with_remote_embeddings(self):
        self.assertEqual(self.lines(3, "ddp_rpc_torch"), [
            "2 trainers: the loss falls", "the dense layers of the trainers are the same"])

    def test_a_wrong_option(self):
        run = self.alone("train_mnist_torch", "--epoch=3")
        self.assertEqual((run.code, run.out), (1, ""), run)
        self.assertIn("train_mnist_torch: unknown option --epoch=3; there are --epochs=,", run.err)


if __name__ == "__main__":
    unittest.main()

"""PyTorch's own suite of torch.distributed, from its wheel, on four ranks with the backend that BACKEND names.

    torch_suite.py [PATTERN ...]

Prints a line for each of its tests: passed, skipped or failed, and its name; then the reason, shortened. A pattern is a part of names.
The ranks are forks of one process, so that PyTorch is imported once, and not in each rank of each test.
"""

import os
import sys
import tempfile
import unittest

RANKS = "4"
LIMIT = "60"  # seconds for one test


def take_the_place_of_gloo():
    """For a PyTorch older than 2.14, whose gloo is no plug-in that --accelerate can replace: a group that is asked for by gloo's
    name is dlaunch's, and keeps the name."""
    from torch.distributed import distributed_c10d

    make = distributed_c10d._new_process_group_helper

    def made(size, rank, ranks, backend, *more, **named):
        if str(backend) != "gloo":
            return make(size, rank, ranks, backend, *more, **named)
        group, store = make(size, rank, ranks, distributed_c10d.Backend("dlaunch"), *more, **named)
        groups = distributed_c10d._world.pg_map
        if group in groups:  # not in a process that is no member
            groups[group] = (distributed_c10d.Backend("gloo"), groups[group][1])
        return group, store

    distributed_c10d._new_process_group_helper = made


def load():
    import torch
    from torch.testing._internal.distributed import distributed_test

    # dlaunch's operations are no events of PyTorch's profiler.
    distributed_test.PROFILING_SUPPORTED_BACKENDS.clear()
    distributed_test.SEND_RECV_PROFILING_SUPPORTED_BACKENDS.clear()

    class Suite(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    return Suite


class Lines(unittest.TestResult):
    def __init__(self, output):
        super().__init__()
        self._output = output

    def _add(self, outcome, test, reason=""):
        reason = " ".join(reason.split())[-300:]
        print(outcome, test._testMethodName, reason, file=self._output, flush=True)

    def addSuccess(self, test):
        self._add("passed", test)

    def addSkip(self, test, reason):
        self._add("skipped", test, reason)

    def addFailure(self, test, error):
        self._add("failed", test, str(error[1]))

    addError = addFailure


def main(patterns):
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(TEMP_DIR=folder, WORLD_SIZE=RANKS, DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=LIMIT, INIT_METHOD=f"file://{folder}/file")
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        if os.environ.get("DLAUNCH_SUITE") == "in place of gloo":
            take_the_place_of_gloo()
        suite = load()
        names = [name for name in unittest.defaultTestLoader.getTestCaseNames(suite)
                 if not patterns or any(pattern in name for pattern in patterns)]
        result = Lines(sys.stdout)
        for name in names:
            suite(name).run(result)


if __name__ == "__main__":
    main(sys.argv[1:])

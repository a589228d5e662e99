#!/usr/bin/env python3
"""What dlaunch says of PyTorch programs over backend dlaunch: which rank is missing or slow, and the lines of their calls.

    DLAUNCH_BIN_DIR=build/bin torch_hang_test.py [Class.test ...]
"""

import json
import os
import re
import sys
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../process"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from common import PATIENCE, free_port, main, wait_until  # noqa: E402
from hang_test import Hang  # noqa: E402
from torch_test import PACKAGE, TORCH_PYTHON, missing  # noqa: E402

# Calls in three ways: at once, by DDP's backward pass, and in a context manager of PyTorch's.
PROGRAM = """\
import sys, threading, time, torch, torch.distributed as dist

def step(async_op=False):
    return dist.all_reduce(torch.ones(4), async_op=async_op)

dist.init_process_group("dlaunch")
rank = dist.get_rank()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
loss = model(torch.ones(2)).sum()
while sys.argv[1] == "slow":
    time.sleep(0.02 * rank)
    step()
step()
if rank == 1:
    threading.Event().wait()
if sys.argv[1] == "called":
    step(async_op=True).wait()
elif sys.argv[1] == "trained":
    loss.backward()
elif sys.argv[1] == "together":
    with dist._coalescing_manager():
        dist.all_reduce(torch.ones(1))
elif sys.argv[1] == "received":
    dist.recv(torch.ones(1), 1)
"""
LAST = "the last call of rank 1 was at program.py:4 in step"


class Torch(Hang):
    def setUp(self):
        super().setUp()
        if why := missing():
            self.skipTest(why)
        self.script = os.path.join(self.dir, "program.py")
        with open(self.script, "w", encoding="utf-8") as file:
            file.write(PROGRAM)

    def start_torch(self, how, *flags, **variables):
        return self.start("--nproc-per-node=2", *flags, "--no-python", TORCH_PYTHON, self.script, how, PYTHONPATH=PACKAGE,
                          PYTHONWARNINGS="ignore", **variables)

    def expect_note(self, how, call, where):
        job = self.start_torch(how, "--hang-note=2")
        self.wait_for_line(job, rf"^dlaunch: nothing has moved for .*{call}.*{re.escape(where)}; {LAST}; rank 1 ")

    def test_pytorch_the_note_of_a_hang_names_the_line_of_each_rank(self):
        job = self.start_torch("called", "--hang-note=2", f"--master-port={(port := free_port())}")
        self.wait_for_line(job, rf"^dlaunch: nothing has moved for [^:]+: rank 1 \(.*\) never entered all_reduce #\d+ of group default; "
                           rf"the other one has waited [^;]+; rank 0 calls it at program.py:4 in step; {LAST}; rank 1 ")
        flight = {worker["rank"]: worker["flight"]["entries"] for worker in self.dump_where(lambda dump: True, "a dump")["workers"]}
        self.assertEqual([entries[-1]["frames"] for entries in flight.values()],
                         [[{"name": "step", "filename": self.script[-104:], "line": 4}]] * 2)
        self.assertRegex(self.dump("--no-stacks").stdout, r"(?m)^0 .* all_reduce #\d+, [^,]+, at program.py:4 in step +\d+$")

        def rows():
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/ranks", timeout=PATIENCE) as answer:
                return [rank["operation"] for node in json.load(answer)["nodes"] for rank in node["ranks"]]

        wait_until(lambda: len(rows()) == 2 and all(row.endswith(" of group default at program.py:4 in step") for row in rows()),
                   "the page shows the lines")

    def test_pytorch_the_note_names_the_programs_line_behind_pytorchs_own(self):
        self.expect_note("trained", "all_reduce", "rank 0 calls it at program.py:19")
        self.expect_note("together", "all_reduce", "rank 0 calls it at program.py:21")
        self.expect_note("received", "recv from rank 1", "rank 0 calls it at program.py:24")

    def test_pytorch_a_variable_turns_the_lines_off(self):
        job = self.start_torch("called", "--hang-note=2", "--export=DLAUNCH_CALL_SITES=0")
        self.wait_for_line(job, r"^dlaunch: nothing has moved for [^:]+: rank 1 \(.*\) never entered all_reduce #\d+ of group default; "
                           r"the other one has waited [^;]+; rank 1 ")

    def test_pytorch_a_straggler_is_named(self):
        job = self.start_torch("slow", DLAUNCH_STRAGGLER_WINDOW="3")
        self.wait_for_line(job, r"^dlaunch: rank 1 is slow: in the last 3 s it came last to \d+ of \d+ collectives of group default, and ")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A step of data-parallel training: LibTorch with our DistributedDataParallel next to PyTorch's over gloo, turn by turn.

    bench/ddp_bench.py [--ranks=2,4] [--turns=5] [--steps=10] [--python=/usr/bin/python3] [--build=build] [--batch=32] [--device=cpu]

25.2 million parameters, batch 32 a rank, one thread a rank. With --device=cuda the ranks share the first GPU, and the gradients are
reduced over gloo on both sides: there the processors are free while the GPU computes. Printed are medians over the turns: a step, a step that reduces
nothing, the reductions alone, what they add to a step, and our step by Python's. Build with -DDLAUNCH_BENCH=ON and LibTorch: that of
the Python, or the products take other times.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

WIDTH, LAYERS = 2240, 5  # as in ddp_ranks.cpp


def run_as_rank(steps, batch, device):
    import torch  # only here: the Python that drives may have none
    import torch.distributed as dist
    from torch import nn

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    net = nn.Sequential(*(layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU()))).to(device)
    model = nn.parallel.DistributedDataParallel(net)
    data = torch.randn(batch, WIDTH).to(device)
    gradients = [torch.zeros_like(parameter) for parameter in net.parameters()]

    def step():
        model.zero_grad()
        model(data).mean().backward()

    def step_without():
        with model.no_sync():
            step()

    def reductions():
        for gradient in gradients:
            dist.all_reduce(gradient)

    def milliseconds(call):
        dist.barrier()
        begin = time.perf_counter()
        call()
        if data.is_cuda:
            torch.cuda.synchronize()
        length = torch.tensor([1e3 * (time.perf_counter() - begin)], dtype=torch.float64)
        dist.all_reduce(length, dist.ReduceOp.MAX)
        return length.item()

    for _ in range(3):
        step()
    times = [[milliseconds(call) for call in (step, step_without, reductions)] for _ in range(steps)]
    if dist.get_rank() == 0:
        print(*(f"{statistics.median(column):.3f}" for column in zip(*times)))
    dist.destroy_process_group()


def run(programs, ranks, *command):
    done = subprocess.run([os.path.join(programs, "dlaunch"), f"--nproc-per-node={ranks}", *command], stdout=subprocess.PIPE, text=True,
                          check=True)
    return [float(number) for number in done.stdout.splitlines()[-1].split()]  # PyTorch 2.9's gloo writes lines before it


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--ranks", default="2,4")
    options.add_argument("--turns", type=int, default=5)
    options.add_argument("--steps", type=int, default=10)
    options.add_argument("--python", default="/usr/bin/python3")
    options.add_argument("--build", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "../build"))
    options.add_argument("--batch", type=int, default=32)
    options.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.worker:
        return run_as_rank(chosen.worker, chosen.batch, chosen.device)
    programs = os.path.join(chosen.build, "bin")
    program = os.path.join(programs, "ddp_ranks")
    form = (str(chosen.batch), chosen.device)
    for ranks in (int(number) for number in chosen.ranks.split(",")):
        sides = {
            "dlaunch, views": lambda: run(programs, ranks, program, str(chosen.steps), "views", *form),
            "dlaunch, copies": lambda: run(programs, ranks, program, str(chosen.steps), "copies", *form),
            "PyTorch, gloo": lambda: run(programs, ranks, chosen.python, os.path.abspath(__file__), f"--worker={chosen.steps}",
                                         f"--batch={chosen.batch}", f"--device={chosen.device}"),
        }
        times = {side: [] for side in sides}
        for _ in range(chosen.turns):
            for side, turn in sides.items():
                times[side].append(turn())
        print(f"{ranks} ranks            step ms   without   alone   adds  of alone  by PyTorch's")
        peer = statistics.median(step for step, _, _ in times["PyTorch, gloo"])
        for side, turns in times.items():
            step, without, alone = (statistics.median(column) for column in zip(*turns))
            adds = step - without
            print(f"{side:18} {step:9.1f} {without:9.1f} {alone:7.1f} {adds:6.1f} {adds / alone:9.2f} {step / peer:13.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

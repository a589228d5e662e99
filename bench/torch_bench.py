#!/usr/bin/env python3
"""PyTorch's backend "dlaunch" next to its gloo: the same calls of torch.distributed, in the same processes, turn by turn.

    bench/torch_bench.py [--ranks=2,4,8] [--calls=all_reduce,all_gather,broadcast,barrier] [--ddp]

A turn lasts until the slowest rank is through; printed are the median of each side's turns, gloo's time by ours, and gloo's time
by that of PyTorch's backend "fake", which sends nothing: what is left of a call then is PyTorch's own. With --ddp: what
data-parallel training adds to a step of 25.6 million parameters. Run it with a Python that has PyTorch 2.9 or newer.
"""

import argparse
import copy
import os
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed as dist
import torch.testing._internal.distributed.fake_pg  # makes the backend "fake" known

BUILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../build")
SIZES = [4 ** k for k in range(3, 14)]  # bytes, from 64 B to 64 MiB
TURN = 3e-3  # seconds, at least
CELL = 0.8  # seconds, about
STEPS = 15


def timed(once, calls):
    """Of one call, in seconds, on the rank that needed longest."""
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(calls):
        once()
    length = torch.tensor([time.perf_counter() - begin], dtype=torch.float64)
    dist.all_reduce(length, dist.ReduceOp.MAX)
    return length.item() / calls


def call_of(name, length, size, group):
    tensor = torch.zeros(length // 4)
    if name == "all_reduce":
        return lambda: dist.all_reduce(tensor, group=group)
    if name == "broadcast":
        return lambda: dist.broadcast(tensor, 0, group=group)
    if name == "all_gather":
        whole = torch.zeros(length // 4 * size)
        return lambda: dist.all_gather_into_tensor(whole, tensor, group=group)
    return lambda: dist.barrier(group)


def compare(names, groups):
    size = dist.get_world_size()
    for name in names:
        for length in SIZES if name != "barrier" else [0]:
            sides = {side: call_of(name, length, size, group) for side, group in groups.items()}
            once = sum(max(timed(call, 1), timed(call, 2)) for call in sides.values())
            calls = int(min(max(2 * TURN / once, 1), 100))
            turns = int(min(max(CELL / (once * calls), 7), 61))
            times = {side: [] for side in sides}
            for _ in range(turns):
                for side, call in sides.items():
                    times[side].append(timed(call, calls))
            if dist.get_rank() == 0:
                ours, theirs, least = (statistics.median(times[side]) * 1e6 for side in ("dlaunch", "gloo", "fake"))
                print(f"{name:10} {size:2} ranks {length:10} {ours:12.1f} {theirs:12.1f} {theirs / ours:7.2f}x {theirs / least:7.2f}x",
                      flush=True)


def train(groups):
    """A step without communication, and what each backend adds to it."""
    inputs = torch.randn(8, 2_000)
    model = torch.nn.Sequential(*(torch.nn.Linear(2_000, 2_000) for _ in range(6)), torch.nn.Linear(2_000, 800))
    models = {"alone": model}
    for side, group in groups.items():
        if side == "fake":
            continue
        models[side] = torch.nn.parallel.DistributedDataParallel(copy.deepcopy(model), process_group=group)
    times = {side: [] for side in models}
    for turn in range(STEPS + 2):
        for side, module in models.items():
            length = timed(lambda: module(inputs).sum().backward(), 1)
            module.zero_grad()
            if turn >= 2:  # the buckets have been rebuilt
                times[side].append(length * 1e3)
    if dist.get_rank() == 0:
        alone, ours, theirs = (statistics.median(times[side]) for side in ("alone", "dlaunch", "gloo"))
        print(f"step of {sum(p.numel() for p in model.parameters()) / 1e6:.1f} M parameters, {dist.get_world_size()} ranks: "
              f"{alone:.1f} ms alone; dlaunch adds {ours - alone:.1f} ms, gloo {theirs - alone:.1f} ms "
              f"({(ours - alone) / (theirs - alone):.2f} of it)", flush=True)


def be_rank(arguments):
    torch.set_num_threads(1)
    dist.init_process_group("dlaunch")
    groups = {"dlaunch": dist.group.WORLD, "gloo": dist.new_group(backend="gloo"), "fake": dist.new_group(backend="fake")}
    if arguments.ddp:
        train(groups)
    else:
        compare(arguments.calls.split(","), groups)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--calls", default="all_reduce,all_gather,broadcast,barrier")
    parser.add_argument("--ddp", action="store_true")
    arguments = parser.parse_args()
    if "RANK" in os.environ:
        return be_rank(arguments)
    print(f"PyTorch {torch.__version__}\n{'':19} {'bytes':>10} {'dlaunch us':>12} {'gloo us':>12} {'ratio':>8} {'fake':>8}", flush=True)
    for ranks in arguments.ranks.split(","):
        subprocess.run([f"{BUILD}/bin/dlaunch", f"--nproc-per-node={ranks}", "--no-python", sys.executable, "-u", *sys.argv], check=True,
                       env={**os.environ, "PYTHONPATH": f"{BUILD}/python", "GLOO_LOG_LEVEL": "ERROR"})
    return None


if __name__ == "__main__":
    main()

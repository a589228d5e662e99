#!/usr/bin/env python3
"""PyTorch's backend "dlaunch" next to its gloo: the same calls of torch.distributed, in processes of their own, turn by turn.

    bench/torch_bench.py [--ranks=2,4,8] [--calls=all_reduce,all_gather,broadcast,barrier] [--turns=3] [--ddp]

A call takes as long as on the slowest rank; printed are the median of each side's turns, gloo's time by ours, and gloo's time by that
of PyTorch's backend "fake", which sends nothing: what is left of a call then is PyTorch's own. With --ddp: what data-parallel
training adds to a step of 25.6 million parameters. Run it with a Python that has PyTorch 2.9 or newer.
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
ROUND = 3e-3  # seconds, at least
CELL = 0.2  # seconds, about
STEPS = 15
MARK = "measured"  # begins the lines of rank 0


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


def report(*words):
    if dist.get_rank() == 0:
        print(MARK, *words, flush=True)


def measure(names, groups):
    for name in names:
        for length in SIZES if name != "barrier" else [0]:
            for side, group in groups.items():
                call = call_of(name, length, dist.get_world_size(), group)
                once = max(timed(call, 1), timed(call, 2))
                calls = int(min(max(ROUND / once, 1), 100))
                rounds = int(min(max(CELL / (once * calls), 5), 31))
                report(name, length, side, statistics.median(timed(call, calls) for _ in range(rounds)))


def train(side):
    """A step without communication, and one with it."""
    inputs = torch.randn(8, 2_000)
    model = torch.nn.Sequential(*(torch.nn.Linear(2_000, 2_000) for _ in range(6)), torch.nn.Linear(2_000, 800))
    models = {f"alone/{side}": model, side: torch.nn.parallel.DistributedDataParallel(copy.deepcopy(model))}
    times = {name: [] for name in models}
    for step in range(STEPS + 2):
        for name, module in models.items():
            length = timed(lambda: module(inputs).sum().backward(), 1)
            module.zero_grad()
            if step >= 2:  # the buckets have been rebuilt
                times[name].append(length)
    for name in models:
        report("step", sum(p.numel() for p in model.parameters()), name, statistics.median(times[name]))


def be_rank(arguments):
    torch.set_num_threads(1)
    side = os.environ["TORCH_BENCH_SIDE"]
    dist.init_process_group(side)
    groups = {side: dist.group.WORLD}
    if side == "dlaunch":
        groups["fake"] = dist.new_group(backend="fake")
    if arguments.ddp:
        train(side)
    else:
        measure(arguments.calls.split(","), groups)
    dist.destroy_process_group()


def run(ranks, side, cells):
    """Adds a turn's times to `cells`: (call, length) -> side -> seconds."""
    done = subprocess.run([f"{BUILD}/bin/dlaunch", f"--nproc-per-node={ranks}", "--no-python", sys.executable, "-u", *sys.argv], check=True,
                          stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "PYTHONPATH": f"{BUILD}/python", "GLOO_LOG_LEVEL": "ERROR", "TORCH_BENCH_SIDE": side})
    for line in done.stdout.splitlines():
        words = line.split()
        if words[:1] == [MARK]:
            cells.setdefault((words[1], int(words[2])), {}).setdefault(words[3], []).append(float(words[4]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--calls", default="all_reduce,all_gather,broadcast,barrier")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--ddp", action="store_true")
    arguments = parser.parse_args()
    if "RANK" in os.environ:
        return be_rank(arguments)
    print(f"PyTorch {torch.__version__}\n{'':19} {'bytes':>10} {'dlaunch us':>12} {'gloo us':>12} {'ratio':>8} {'fake':>8}", flush=True)
    for ranks in arguments.ranks.split(","):
        cells = {}
        for _ in range(arguments.turns):
            for side in ("dlaunch", "gloo"):
                run(ranks, side, cells)
        for (name, length), sides in cells.items():
            took = {side: statistics.median(times) for side, times in sides.items()}
            if name == "step":
                alone = statistics.median(sides["alone/dlaunch"] + sides["alone/gloo"])
                ours, theirs = took["dlaunch"] - alone, took["gloo"] - alone
                print(f"step of {length / 1e6:.1f} M parameters, {ranks} ranks: {alone * 1e3:.1f} ms alone; dlaunch adds "
                      f"{ours * 1e3:.1f} ms, gloo {theirs * 1e3:.1f} ms ({ours / theirs:.2f} of it)", flush=True)
                continue
            ours, theirs, least = took["dlaunch"], took["gloo"], took["fake"]
            print(f"{name:10} {ranks:>2} ranks {length:10} {ours * 1e6:12.1f} {theirs * 1e6:12.1f} {theirs / ours:7.2f}x {theirs / least:7.2f}x",
                  flush=True)
    return None


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Remote calls of two workers on this host, next to PyTorch's torch.distributed.rpc over TensorPipe, turn by turn.

    bench/rpc_bench.py [--turns=3] [--python=/usr/bin/python3]

For each wire: the p50 of an empty rpc_sync, calls a second with 1,000 under way, 64 MiB as an argument (also by our
messages of a group), and what 10^6 calls leave in memory. Printed are medians of the turns and the ratio to PyTorch's.
"""

import argparse
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
BIN = os.path.join(HERE, "../build/bin")
OURS = {"within the host": {}, "TCP": {"DLAUNCH_RPC_UNIX": "0", "DLAUNCH_SHM": "0"}}
THEIRS = {"within the host": "shm", "TCP": "tcp"}
ROWS = [("call_us", "empty rpc_sync, p50", "us", 1, False), ("calls_per_s", "empty calls in flight", "k/s", 1e3, True),
        ("argument_bytes_per_s", "64 MiB argument", "GB/s", 1e9, True)]


def measure(command, variables):
    """The numbers that rank 0 prints."""
    run = subprocess.run([os.path.join(BIN, "dlaunch"), "--nproc-per-node=2", *command], env={**os.environ, **variables},
                         capture_output=True, text=True, timeout=600)
    if run.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{run.stderr}")
    return {name: float(number) for name, number in (line.split() for line in run.stdout.splitlines())}


def medians(runs):
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--python", default="/usr/bin/python3", help="one that has torch")
    args = parser.parse_args()
    for wire, variables in OURS.items():
        ours, theirs = [], []
        for _ in range(args.turns):
            ours.append(measure([os.path.join(BIN, "rpc_bench")], variables))
            theirs.append(measure(["--no-python", args.python, os.path.join(HERE, "rpc_torch.py"), THEIRS[wire]], {}))
        ours, theirs = medians(ours), medians(theirs)
        print(f"{wire:24} {'dlaunch':>12} {'PyTorch':>12}   times better")
        for name, words, unit, scale, more_is_better in ROWS:
            ratio = ours[name] / theirs[name] if more_is_better else theirs[name] / ours[name]
            print(f"  {words:22} {ours[name] / scale:7.2f} {unit:4} {theirs[name] / scale:7.2f} {unit:4}   {ratio:.1f}")
        print(f"  64 MiB in a message    {ours['message_bytes_per_s'] / 1e9:7.2f} GB/s; an argument reaches "
              f"{100 * ours['argument_bytes_per_s'] / ours['message_bytes_per_s']:.0f} % of it")
        print(f"  10^6 calls leave       {ours['left_bytes'] / 1024:7.0f} KiB at the caller, {ours['left_there_bytes'] / 1024:.0f} KiB at the callee")


if __name__ == "__main__":
    main()

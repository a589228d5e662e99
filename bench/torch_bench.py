#!/usr/bin/env python3
"""Our all_reduce next to PyTorch's gloo: the same processes and tensors, turn by turn, both called from Python.

    bench/torch_bench.py [RANKS ... [build/lib]]

A turn lasts until the slowest rank is through; printed are the median of each side's turns and PyTorch's time by ours.
"""

import ctypes
import os
import signal
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist

LIBRARY = os.path.join(sys.argv.pop() if sys.argv[-1:] and not sys.argv[-1].isdigit() and len(sys.argv) > 1
                       else "build/lib", "libdlaunch.so")
SIZES = [4 ** k for k in range(1, 14)]  # bytes, to 64 MiB
TURN = 3e-3  # seconds, at least
CELL = 0.6  # seconds, about
FLOAT32, SUM = 8, 0


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("dims", ctypes.c_size_t), ("device", ctypes.c_int), ("device_index", ctypes.c_int)]


class InitOptions(ctypes.Structure):
    _fields_ = [("backend", ctypes.c_char_p), ("init_method", ctypes.c_char_p), ("timeout_ms", ctypes.c_int64),
                ("rank", ctypes.c_int), ("world_size", ctypes.c_int), ("group_name", ctypes.c_char_p),
                ("store", ctypes.c_void_p)]


class Dlaunch:
    def __init__(self, rank, size, directory):
        self.library = ctypes.CDLL(LIBRARY)
        self.library.dlaunch_last_error.restype = ctypes.c_char_p
        options = InitOptions(init_method=f"file://{directory}/dlaunch".encode(), rank=rank, world_size=size)
        self.check(self.library.dlaunch_init_process_group(ctypes.byref(options)))

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.library.dlaunch_last_error().decode())

    def all_reduce(self, tensor):
        view = Tensor(tensor.data_ptr(), FLOAT32, (ctypes.c_int64 * 1)(tensor.numel()), 1, 0, 0)
        call, reference = self.library.dlaunch_all_reduce, ctypes.byref(view)
        return lambda: self.check(call(reference, SUM, None, ctypes.c_int64(0), None))

    def leave(self):
        self.check(self.library.dlaunch_destroy_process_group())


def timed(once, calls):
    """Of one call, in seconds, on the rank that needed longest."""
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(calls):
        once()
    length = torch.tensor([time.perf_counter() - begin], dtype=torch.float64)
    dist.all_reduce(length, dist.ReduceOp.MAX)
    return length.item() / calls


def be_rank(rank, size, directory):
    dist.init_process_group("gloo", init_method=f"file://{directory}/torch", rank=rank, world_size=size)
    dlaunch = Dlaunch(rank, size, directory)
    for length in SIZES:
        tensor = torch.zeros(length // 4)
        sides = {"dlaunch": dlaunch.all_reduce(tensor), "torch": lambda: dist.all_reduce(tensor)}
        once = sum(max(timed(side, 1), timed(side, 2)) for side in sides.values())
        calls = int(min(max(2 * TURN / once, 1), 100))
        turns = int(min(max(CELL / (once * calls), 7), 61))
        times = {name: [] for name in sides}
        for _ in range(turns):
            for name, side in sides.items():
                times[name].append(timed(side, calls))
        if rank == 0:
            ours, theirs = (statistics.median(times[name]) * 1e6 for name in ("dlaunch", "torch"))
            print(f"all_reduce {size:2} ranks {length:10} {ours:12.1f} {theirs:12.1f} {theirs / ours:7.2f}x", flush=True)
    dlaunch.leave()
    dist.destroy_process_group()


def main():
    torch.set_num_threads(1)
    print(f"{'':19} {'bytes':>10} {'dlaunch us':>12} {'PyTorch us':>12} {'ratio':>8}")
    for size in [int(argument) for argument in sys.argv[1:]] or [2, 4]:
        with tempfile.TemporaryDirectory(prefix="dlaunch_bench.") as directory:
            ranks = {}  # by pid
            for rank in range(size):
                sys.stdout.flush()
                pid = os.fork()
                if pid == 0:
                    try:
                        be_rank(rank, size, directory)
                        os._exit(0)
                    except BaseException as error:  # pylint: disable=broad-except
                        print(f"rank {rank}: {error!r}", file=sys.stderr)
                        os._exit(1)
                ranks[pid] = rank
            while ranks:
                pid, status = os.wait()
                rank = ranks.pop(pid)
                if status != 0:
                    for other in ranks:
                        os.kill(other, signal.SIGKILL)
                    sys.exit(f"rank {rank} ended with {os.waitstatus_to_exitcode(status)}")


if __name__ == "__main__":
    main()

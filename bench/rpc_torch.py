"""PyTorch's remote calls over TensorPipe, measured as rpc_bench.cpp measures ours; rpc_bench.py runs it under dlaunch.

    rpc_torch.py shm|tcp

Each line is a name and a number. The function is TorchScript, which the callee runs without Python: the faster kind.
"""

import collections
import os
import sys
import time

import torch
import torch.distributed.rpc as rpc

LARGE = 64 << 20  # bytes
LARGE_CALLS = 12
WINDOW = 1000


@torch.jit.script
def nothing():
    pass


@torch.jit.script
def take(values: torch.Tensor) -> int:
    return values.numel()


def latency():
    times = []
    for _ in range(5000):
        begin = time.perf_counter()
        rpc.rpc_sync("worker1", nothing)
        times.append((time.perf_counter() - begin) * 1e6)
    times.sort()
    print(f"call_us {times[len(times) // 2]:.2f}\ncall_p99_us {times[len(times) * 99 // 100]:.2f}")


def throughput():
    calls = 50_000
    waiting = collections.deque()
    begin = time.perf_counter()
    for _ in range(calls):
        waiting.append(rpc.rpc_async("worker1", nothing))
        if len(waiting) == WINDOW:
            waiting.popleft().wait()
    for one in waiting:
        one.wait()
    print(f"calls_per_s {calls / (time.perf_counter() - begin):.0f}")


def bandwidth():
    values = torch.ones(LARGE // 4)
    rpc.rpc_sync("worker1", take, args=(values,))
    begin = time.perf_counter()
    for _ in range(LARGE_CALLS):
        rpc.rpc_sync("worker1", take, args=(values,))
    print(f"argument_bytes_per_s {LARGE_CALLS * LARGE / (time.perf_counter() - begin):.0f}")


def main():
    wire = {"shm": {}, "tcp": {"_transports": ["uv"], "_channels": ["mpt_uv", "basic"]}}[sys.argv[1]]
    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2, rpc_backend_options=rpc.TensorPipeRpcBackendOptions(**wire))
    if rank == 0:
        latency()
        throughput()
        bandwidth()
    rpc.shutdown()


if __name__ == "__main__":
    main()

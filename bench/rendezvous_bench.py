#!/usr/bin/env python3
"""How fast nodes find each other and re-form, next to PyTorch's c10d rendezvous, in one run.

    bench/setup; cmake -S . -B build -DDLAUNCH_BENCH=ON; cmake --build build; bench/rendezvous_bench.py [build/bin]

dlaunch: a real agent serves the endpoint, all other nodes are connections from one process. PyTorch: its own
DynamicRendezvousHandler with its own TCPStore, each node a thread of one process (Debian's python3-torch).
"""

import os
import socket
import statistics
import subprocess
import sys
import time

BIN = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/bin")
DLAUNCH = os.path.join(BIN, "dlaunch")
LOAD = os.path.join(BIN, "rendezvous_load")
PYTHON = os.environ.get("BENCH_PYTHON", "/usr/bin/python3")

TORCH = r"""
import sys, threading, time
from datetime import timedelta
from torch.distributed import TCPStore
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import DynamicRendezvousHandler
nodes = int(sys.argv[1])
server = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
handlers = []
for i in range(nodes):
    store = TCPStore("127.0.0.1", server.port, is_master=False, wait_for_workers=False)
    backend = C10dRendezvousBackend(store, "bench")
    handlers.append(DynamicRendezvousHandler.from_backend("bench", store, backend, nodes, nodes, "n%d" % i))
threads = [threading.Thread(target=h.next_rendezvous) for h in handlers]
begin = time.perf_counter()
for t in threads: t.start()
for t in threads: t.join()
print((time.perf_counter() - begin) * 1e3, flush=True)
import os; os._exit(0)
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(port):
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.005)
    raise TimeoutError(f"nothing listens at port {port}")


def ours(nodes, lose):
    port = free_port()
    with subprocess.Popen([DLAUNCH, f"--nnodes={max(1, nodes - 1)}:{nodes}", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=bench",
                           "--node-timeout=0", "--stop-timeout=0", "sleep", "1000"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as agent:
        try:
            listens(port)
            done = subprocess.run([LOAD, f"127.0.0.1:{port}", str(nodes), "1" if lose else "0"], stdout=subprocess.PIPE, text=True,
                                  check=True, timeout=60)
        finally:
            agent.kill()
    return [float(line) for line in done.stdout.split()]


def torchs(nodes, limit):
    try:
        done = subprocess.run([PYTHON, "-c", TORCH, str(nodes)], capture_output=True, text=True, check=True, timeout=limit)
        return float(done.stdout.split()[-1])
    except subprocess.TimeoutExpired:
        return None


def main():
    print("nodes formed, from the first connection to the last node told (median of 5; PyTorch of 3):")
    for nodes in (2, 8, 32, 128, 1000):
        formed = statistics.median(ours(nodes, False)[0] for _ in range(5))
        other = "not tried"
        if nodes <= 128:
            times = [torchs(nodes, 60) for _ in range(3)]
            known = [t for t in times if t is not None]
            other = f"{statistics.median(known):9.1f} ms   {statistics.median(known) / formed:7.0f} x" if known else "not within 60 s"
        print(f"  {nodes:5}   dlaunch {formed:8.2f} ms   PyTorch {other}")
    print("a node lost, from its connection's end to the last survivor told of the new world (median of 5):")
    for nodes in (8, 128, 1000):
        again = statistics.median(ours(nodes, True)[1] for _ in range(5))
        print(f"  {nodes:5}   dlaunch {again:8.2f} ms")


if __name__ == "__main__":
    main()

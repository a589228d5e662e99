#!/usr/bin/env python3
"""dlaunch's store server next to Redis and to PyTorch's TCPStore, in one run.

    bench/setup; cmake -S . -B build -DDLAUNCH_BENCH=ON; cmake --build build; bench/store_bench.py [build/bin]

Each server is a process of its own with one thread; the load comes from one program that speaks all protocols
(bench/store_load.cpp). The servers of one comparison take turns, so that a machine whose speed drifts slows all of
them alike; every figure is a median. "cpu" is the processor time that the server itself used for a request: what bounds
its rate on a machine where the load has processors of its own.
"""

import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time

BIN = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/bin")
RUNS = 5
SECONDS = 0.6
PYTHON = os.environ.get("PYTHON_EXEC", "/usr/bin/python3")  # Debian's, which has torch

TORCH_SERVER = """
import sys, time, datetime, torch.distributed as d
store = d.TCPStore("127.0.0.1", int(sys.argv[1]), 1, True, datetime.timedelta(seconds=60))
sys.stdin.read()
"""

# N clients, a thread each, as store_scale's "gets"; the interpreter's lock is free while one waits for its answer.
TORCH_CLIENTS = """
import sys, time, datetime, threading, torch.distributed as d
port, clients = int(sys.argv[1]), int(sys.argv[2])
counts = []
def client():
    store = d.TCPStore("127.0.0.1", port, 1, False, datetime.timedelta(seconds=60))
    store.set("key", "x" * 32)
    for _ in range(500): store.get("key")
    count, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < 1.0:
        store.get("key")
        count += 1
    counts.append(count)
threads = [threading.Thread(target=client) for _ in range(clients)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sum(counts))
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    def __init__(self, name, protocol, command):
        self.name, self.protocol, self.port = name, protocol, free_port()
        self.process = subprocess.Popen([word.format(port=self.port) for word in command], stdin=subprocess.PIPE,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    sys.exit(f"store_bench: {name} does not answer")
                time.sleep(0.05)

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def cpu(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="utf-8") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_mib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024

    def load(self, work, connections, pipeline=1):
        """Requests a second, and the server's processor time for one in microseconds."""
        before = self.cpu()
        done = subprocess.run([os.path.join(BIN, "store_load"), self.address, self.protocol, work, str(connections),
                               str(SECONDS), str(pipeline)], capture_output=True, text=True, check=True)
        rate = float(done.stdout)
        return rate, (self.cpu() - before) / (rate * SECONDS * 1.2) * 1e6  # the warm-up is a fifth

    def stop(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def scale(server, what, number, **options):
    return subprocess.run([os.path.join(BIN, "store_scale"), server.address, what, str(number)], capture_output=True,
                          text=True, check=True, **options).stdout.split()


def compare(title, servers, connections, pipeline=1):
    print(f"{title}, requests a second (cpu of one):")
    print(f"  {'':18}" + "".join(f"{server.name:>29}" for server in servers))
    for work in ("set", "get", "add"):
        for count in connections:
            results = {server: [] for server in servers}
            for _ in range(RUNS):
                for server in servers:
                    results[server].append(server.load(work, count, pipeline))
            medians = {server: [statistics.median(column) for column in zip(*taken)] for server, taken in results.items()}
            own = medians[servers[0]]
            cells = ""
            for server, (rate, cpu) in medians.items():
                ratio = "" if server is servers[0] else f" = 1/{own[0] / rate:.2f}"
                cells += f"{rate:11,.0f} ({cpu:4.2f} us){ratio:9}"
            print(f"  {work:4} {count:3} clients {cells}", flush=True)


def whole_stores(own, torch, clients):
    """Each server with its own client: what a program's get() takes."""
    rates = {"dlaunch": [], "PyTorch": []}
    for _ in range(RUNS):
        rates["dlaunch"].append(float(scale(own, "gets", clients)[0]))
        done = subprocess.run([PYTHON, "-c", TORCH_CLIENTS, str(torch.port), str(clients)], capture_output=True, text=True, check=True)
        rates["PyTorch"].append(float(done.stdout))
    ours, theirs = (statistics.median(taken) for taken in rates.values())
    print(f"store.get() with its own client, {clients:2} of them: dlaunch {ours:9,.0f} a second, PyTorch {theirs:9,.0f}, {ours / theirs:.2f} x",
          flush=True)


def main():
    ours = ("dlaunch", "torch1", [os.path.join(BIN, "dlaunch"), "store", "--host=127.0.0.1", "--port={port}"])
    servers = []
    try:
        servers.append(own := Server(ours[0], "torch2", ours[2]))
        if shutil.which("redis-server"):
            servers.append(redis := Server("redis", "redis", ["redis-server", "--port", "{port}", "--save", "", "--appendonly", "no"]))
            compare("Next to Redis", [own, redis], (1, 16, 64))
            compare("The same, 16 requests at once", [own, redis], (64,), pipeline=16)
        if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode == 0:
            own.protocol = "torch1"  # the same bytes for both
            servers.append(torch := Server("PyTorch's", "torch1", [PYTHON, "-c", TORCH_SERVER, "{port}"]))
            compare("Next to PyTorch's server", [own, torch], (1, 16, 64))
            compare("The same, 16 requests at once", [own, torch], (64,), pipeline=16)
            for clients in (1, 4, 16):
                whole_stores(own, torch, clients)
    finally:
        for server in servers:
            server.stop()

    own = Server(*ours)
    try:
        print(f"5,000 clients connect at once: all answered after {scale(own, 'storm', 5000)[0]} s")
        print(f"one client waits for 10,000 keys that another sets: {scale(own, 'wait', 10000)[0]} s")
        with subprocess.Popen([os.path.join(BIN, "store_scale"), own.address, "hold", "10000"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as holder:
            holder.stdout.readline()
            print(f"10,000 idle connections: {own.resident_mib():.1f} MiB resident")
            holder.stdin.close()
        big = scale(own, "big", 512)
        print(f"a value of 512 MiB: set in {big[0]} s, got in {big[1]} s")
    finally:
        own.stop()


main()

#!/usr/bin/env python3
"""Remote calls with 64 MiB between two hosts: over one connection and over several, in turn.

    bench/rpc_hosts_bench.py [--runs=5] [--connections=1,4] [--delay=2000] [--buffer=BYTES]

The hosts are network namespaces on a switch. --delay: of a way, in microseconds (netem, or delayed_switch.cpp); --buffer: the largest
buffer that the kernel gives a connection, in bytes, which bounds what is under way on it. Needs root. Prints medians and ranges: the speed
of the argument, and the median and the p99 of an empty call beside such arguments.
"""

import argparse
import os
import statistics
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tests", "process"))
from host_bench import BUILD  # noqa: E402
from hosts import Hosts  # noqa: E402
from hosts_bench import Test, delay_links  # noqa: E402

ROWS = [("argument_bytes_per_s", "64 MiB argument, GB/s", 1e9), ("call_beside_us", "empty call beside, p50, us", 1),
        ("call_beside_p99_us", "empty call beside, p99, us", 1)]


def measure(hosts, connections, port):
    """The numbers that rank 0 prints."""
    nodes = []
    for i in range(2):
        command = [*hosts.on(i), os.path.join(BUILD, "bin/dlaunch"), "--nnodes=2", f"--node-rank={i}", "--nproc-per-node=1",
                   f"--master-addr={hosts.addresses[0]}", f"--master-port={port}", os.path.join(BUILD, "bin/rpc_bench"), "large"]
        nodes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                                      env={**os.environ, "DLAUNCH_RPC_CONNECTIONS": str(connections)}))
    shown = [node.communicate()[0] for node in nodes]
    if any(node.returncode != 0 for node in nodes):
        sys.exit("the job failed")
    lines = [line.split() for text in shown for line in text.splitlines()]
    return {words[-2]: float(words[-1]) for words in lines}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--connections", default="1,4")
    parser.add_argument("--delay", type=int, default=0)
    parser.add_argument("--buffer", type=int, default=0)
    options = parser.parse_args()
    test = Test()
    hosts = Hosts(test, 2)
    switch = None
    try:
        for i in range(2):
            if options.buffer:
                for variable in ("tcp_rmem", "tcp_wmem"):
                    subprocess.run([*hosts.on(i), "sysctl", "-qw", f"net.ipv4.{variable}=4096 65536 {options.buffer}"], check=True)
        if options.delay:
            switch = delay_links(hosts, options.delay)
        counts = options.connections.split(",")
        runs = {count: [] for count in counts}
        for i in range(options.runs):
            for j, count in enumerate(counts):
                runs[count].append(measure(hosts, count, 29700 + i * len(counts) + j))
        for name, words, unit in ROWS:
            for count in counts:
                values = [run[name] / unit for run in runs[count]]
                print(f"{words:28} {count:>3} {'connection ' if count == '1' else 'connections'} {statistics.median(values):9.2f}"
                      f" ({min(values):.2f} to {max(values):.2f})")
    finally:
        if switch:
            switch.kill()
        test.doCleanups()


if __name__ == "__main__":
    main()

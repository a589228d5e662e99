#!/usr/bin/env python3
"""Collectives of several hosts: each through shared memory within, next to TCP between all ranks, in one run.

    hosts_bench.py [--hosts=2] [--ranks=4] [--runs=5] [--rate=1gbit] [--delay=200] [--operation=all] [--largest=67108864]

The hosts are network namespaces on a switch; what each sends is slowed down by tc (--rate), and delayed by so many
microseconds (--delay): by the kernel's netem, or by a switch of ours (delayed_switch.cpp). Needs root. Prints the median of
each cell in microseconds and the ratio.
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

SIDES = {"memory and TCP": {}, "TCP": {"DLAUNCH_SHM": "0"}}


def delay_links(hosts, delay, parent=None):
    """Delays what each host sends, in microseconds. Returns what does it, or None: the kernel."""
    has_netem = True
    for name in hosts.names:
        add = ["tc", "-n", name, "qdisc", "add", "dev", "eth0", *(parent or ["root"]), "netem", "delay", f"{delay}us", "limit", "20000"]
        has_netem = has_netem and subprocess.run(add, capture_output=True, check=False).returncode == 0
    if has_netem:
        return None
    for i in range(len(hosts.names)):
        hosts.pull_cable(i)
    switch = subprocess.Popen([*hosts.on_switch(), os.path.join(BUILD, "bin/delayed_switch"), str(delay), *hosts.ports()],
                              stdout=subprocess.PIPE, text=True)
    if not switch.stdout.readline():
        sys.exit("the switch that delays does not run")
    return switch


def slow_down(hosts, rate, delay):
    """Links of that rate, whose queues hold 20 ms, and of that delay for a way, in microseconds. Returns what delays, or None."""
    for name in hosts.names:
        subprocess.run(["tc", "-n", name, "qdisc", "add", "dev", "eth0", "root", "handle", "1:", "tbf", "rate", rate, "burst", "128kb",
                        "latency", "20ms"], check=True)
    return delay_links(hosts, delay, ["parent", "1:1"]) if delay > 0 else None


def run(hosts, options, operation, size, environment, port):
    """Microseconds of a call, by (operation, bytes)."""
    limits = [str(size), str(size), "4", options.seconds]
    nodes = []
    for i in range(options.hosts):
        command = [*hosts.on(i), os.path.join(BUILD, "bin/dlaunch"), f"--nnodes={options.hosts}", f"--node-rank={i}",
                   f"--nproc-per-node={options.ranks}", f"--master-addr={hosts.addresses[0]}", f"--master-port={port}",
                   os.path.join(BUILD, "bin/host_dlaunch"), operation, *limits]
        nodes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}))
    cells = {}
    for node in nodes:
        shown, _ = node.communicate()
        if node.returncode != 0:
            sys.exit(f"a node ended with {node.returncode}")
        for words in map(str.split, shown.splitlines()):
            words = words[-3:]
            if len(words) == 3 and words[1].isdigit():
                cells[words[0], int(words[1])] = float(words[2])
    return cells


class Test(unittest.TestCase):
    """What Hosts needs to clean up."""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--delay", type=int, default=200)
    parser.add_argument("--operation", default="all")
    parser.add_argument("--smallest", type=int, default=4)
    parser.add_argument("--largest", type=int, default=64 << 20)
    parser.add_argument("--factor", type=int, default=16)
    parser.add_argument("--seconds", default="0.2")
    options = parser.parse_args()
    test = Test()
    switch = None
    try:
        hosts = Hosts(test, options.hosts)
        switch = slow_down(hosts, options.rate, options.delay)
        times = {name: {} for name in SIDES}
        port = 29500
        size = options.smallest
        while size <= options.largest:
            for _ in range(options.runs):
                for name, environment in SIDES.items():
                    port += 1
                    for cell, time in run(hosts, options, options.operation, size, environment, port).items():
                        times[name].setdefault(cell, []).append(time)
            size *= options.factor
    finally:
        if switch:
            switch.kill()
        test.doCleanups()
    print(f"{options.hosts} hosts x {options.ranks} ranks, {options.rate}, {options.delay} us, medians of {options.runs} runs, "
          "microseconds")
    print(f"{'operation':15}{'bytes':>10}" + "".join(f"{name:>18}" for name in SIDES) + f"{'ratio':>8}")
    for cell in sorted(times["TCP"]):
        mixed, flat = (statistics.median(times[name][cell]) for name in SIDES)
        print(f"{cell[0]:15}{cell[1]:>10}{mixed:18.1f}{flat:18.1f}{mixed / flat:8.2f}")


if __name__ == "__main__":
    main()

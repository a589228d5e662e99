#!/usr/bin/env python3
"""The start of a job on many hosts over ssh: dlaunch --hosts next to Open MPI's mpirun and MPICH's mpiexec, in one run.

    ssh_bench.py [--hosts=64] [--runs=5] [--sides=dlaunch,mpirun,flat,hydra]

The hosts are network namespaces, each with an sshd; the launchers run on none of them, with the same ssh, keys and options.
Each worker prints the time at which it starts. Prints the medians, in milliseconds after the command: the first worker, the
last one, and the end of the command. `flat` is mpirun without its tree. Needs root, bench/setup and openssh-server.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tests", "process"))
from host_bench import BUILD  # noqa: E402
from hosts import Hosts  # noqa: E402

SSHD = "/usr/sbin/sshd"
WORKER = ["date", "+%s%N"]


class Test(unittest.TestCase):
    """What Hosts needs to clean up."""


class Cluster:
    """Hosts with an sshd on each, and an ssh that may log in."""

    def __init__(self, test, count):
        self.dir = tempfile.mkdtemp(prefix="dlaunch_ssh_bench.")
        test.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.hosts = Hosts(test, count)
        for name in ("host_key", "client_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.path(name)], check=True, stdin=subprocess.DEVNULL)
        with open(self.path("host_key.pub"), encoding="utf-8") as file:
            key = file.read()
        self.write("known_hosts", "".join(f"{address} {key}" for address in self.hosts.addresses))
        self.write("ssh_config", f"Host *\n  IdentityFile {self.path('client_key')}\n  IdentitiesOnly yes\n  BatchMode yes\n"
                   f"  UserKnownHostsFile {self.path('known_hosts')}\n  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n")
        # For launchers that take a program only, without its options.
        self.write("ssh", f"#!/bin/sh\nexec /usr/bin/ssh -F {self.path('ssh_config')} \"$@\"\n")
        os.chmod(self.path("ssh"), 0o755)
        os.makedirs("/run/sshd", exist_ok=True)
        for i in range(count):
            self.start_sshd(test, i)

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def start_sshd(self, test, i):
        self.write(f"sshd_config.{i}", f"ListenAddress {self.hosts.addresses[i]}\nHostKey {self.path('host_key')}\n"
                   f"AuthorizedKeysFile {self.path('client_key')}.pub\nStrictModes no\nUsePAM no\nPidFile none\n"
                   "PermitRootLogin prohibit-password\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n")
        daemon = subprocess.Popen([*self.hosts.on(i), SSHD, "-D", "-e", "-f", self.path(f"sshd_config.{i}")], cwd="/",
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        def finish():
            daemon.kill()
            daemon.communicate()
        test.addCleanup(finish)
        if not any("Server listening" in line for line in daemon.stderr):
            sys.exit("sshd did not start")


def commands(cluster):
    """By side: the words before the worker's."""
    addresses = cluster.hosts.addresses
    names, ssh = ",".join(addresses), cluster.path("ssh")
    mpirun = ["mpirun.openmpi", "--allow-run-as-root", "--mca", "plm_rsh_agent", ssh, "--host", names, "-np", str(len(addresses))]
    return {
        "dlaunch": [os.path.join(BUILD, "bin/dlaunch"), f"--hosts={names}", f"--ssh={ssh}", "--nproc-per-node=1", "--no-python"],
        "mpirun": mpirun,
        "flat": [*mpirun[:2], "--mca", "plm_rsh_no_tree_spawn", "1", *mpirun[2:]],
        "hydra": ["mpiexec.hydra", "-launcher", "ssh", "-launcher-exec", ssh, "-iface", "switch0", "-hosts", names, "-ppn", "1",
                  "-n", str(len(addresses))],
    }


def measure(cluster, command):
    """Milliseconds until the first worker, the last one, and the end."""
    began = time.time_ns()
    done = subprocess.run([*cluster.hosts.on_switch(), *command, *WORKER], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=300, check=False)
    ended = time.time_ns()
    times = [int(line) for line in done.stdout.split() if line.isdigit()]
    if done.returncode != 0 or len(times) != len(cluster.hosts.addresses):
        sys.exit(f"{' '.join(command[:3])} ended with {done.returncode} after {len(times)} workers: {done.stderr[-2000:]}")
    return [(at - began) / 1e6 for at in (min(times), max(times), ended)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=int, default=64)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--sides", default="dlaunch,mpirun,flat,hydra")
    options = parser.parse_args()
    test = Test()
    try:
        cluster = Cluster(test, options.hosts)
        sides = {name: command for name, command in commands(cluster).items() if name in options.sides.split(",")}
        results = {name: [] for name in sides}
        for _ in range(options.runs):
            for name, command in sides.items():
                results[name].append(measure(cluster, command))
    finally:
        test.doCleanups()
    print(f"{options.hosts} hosts, medians of {options.runs} runs, milliseconds after the command")
    print(f"{'':10}{'first worker':>14}{'last worker':>14}{'end':>10}")
    for name, runs in results.items():
        first, last, end = (statistics.median(column) for column in zip(*runs))
        print(f"{name:10}{first:14.0f}{last:14.0f}{end:10.0f}")


if __name__ == "__main__":
    main()

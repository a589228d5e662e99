#!/usr/bin/env python3
"""Remote calls with long arguments between two hosts: their connections, a worker that is killed, a stranger on the port.

    DLAUNCH_BIN_DIR=build/bin rpc_hosts_test.py [Class.test ...]

The hosts are network namespaces.
"""

import os
import re
import signal
import subprocess
import sys
import unittest

from common import BIN, PATIENCE, environment, main
from hosts import Hosts

WORKER = os.path.join(os.path.dirname(BIN), "tests", "long_caller")

# Run on a third host: many connections to the port, all there at once, with as many bytes as each one takes. Each must end.
STRANGER = """
import os, socket, sys
noise = os.urandom(4 << 20)
for opening in (b"", b"dlmesh\\0\\1", b"GET / HTTP/1.1\\r\\n"):
    strangers = [socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60) for _ in range(100)]
    for stranger in strangers:
        try:
            stranger.sendall(opening + noise)
            while stranger.recv(4096):
                pass
        except ConnectionError:
            pass
print("all have ended")
"""
MOST_GROWTH = 64 << 10  # KiB, of the callee's memory meanwhile: its allocator's and sanitizer's part; the strangers send 1,200 MiB


def most_memory(pid):
    """KiB, resident, since the process began."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return int(re.search(r"VmHWM:\s+(\d+)", status.read())[1])


class RpcHosts(unittest.TestCase):
    def start(self, count=2):
        """The workers, when the first one has connections for its long arguments."""
        self.hosts = Hosts(self, count)
        workers = []
        for rank in range(2):
            variables = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": self.hosts.addresses[0], "MASTER_PORT": "29500"}
            worker = subprocess.Popen([*self.hosts.on(rank), WORKER], env={**environment(), **variables}, text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.addCleanup(self.finish, worker)
            workers.append(worker)
        self.assertEqual(workers[0].stdout.readline(), "connected\n")
        return workers

    @staticmethod
    def finish(process):
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            stream.close()

    def succeed(self, workers):
        self.assertEqual(workers[0].communicate("end\n", timeout=PATIENCE)[0], "right\n")
        self.assertEqual(workers[1].communicate(timeout=PATIENCE)[0], "right\n")

    def sockets(self, host, *options):
        return subprocess.run([*self.hosts.on(host), "ss", "-Htn", *options], capture_output=True, text=True, check=True).stdout

    def port_of_callee(self):
        """The port at which rank 1 listens: no other process on its host does."""
        ports = set(re.findall(r"\S+:(\d+)\s+\S+:\*", self.sockets(1, "-l")))
        self.assertEqual(len(ports), 1)
        return ports.pop()

    def test_long_arguments_have_connections_of_their_own(self):
        workers = self.start()
        there = f"{self.hosts.addresses[1]}:{self.port_of_callee()}"
        self.assertEqual(sum(there in line for line in self.sockets(0).splitlines()), 5)
        self.succeed(workers)

    def test_a_killed_worker_ends_the_calls(self):
        workers = self.start()
        workers[1].send_signal(signal.SIGKILL)
        said = workers[0].communicate(timeout=PATIENCE)[0]
        self.assertRegex(said, r"'(take|add|wait_for_release)' was (not )?sent.*worker worker1 \(rank 1\) on host .* died")

    def cut(self, choose):
        workers = self.start()
        to_callee = ["dst", self.hosts.addresses[1], "dport", "=", f":{self.port_of_callee()}"]
        ports = [int(line.split()[3].rsplit(":", 1)[1]) for line in self.sockets(0, *to_callee).splitlines()]
        self.sockets(0, "-K", *to_callee, "sport", "=", f":{choose(ports)}")
        said = workers[0].communicate(timeout=PATIENCE)[0]
        self.assertRegex(said, r"'(take|add|wait_for_release)' was (not )?sent.*worker worker1 .* died, or the connection to it was lost")

    def test_the_first_connection_that_is_cut_ends_the_calls(self):
        self.cut(min)

    def test_a_further_connection_that_is_cut_ends_the_calls(self):
        self.cut(max)

    def test_a_stranger_gets_nothing(self):
        workers = self.start(3)
        port = self.port_of_callee()
        sockets = len(self.sockets(1).splitlines())
        before = most_memory(workers[1].pid)
        stranger = subprocess.run([*self.hosts.on(2), sys.executable, "-c", STRANGER, self.hosts.addresses[1], port],
                                  capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(stranger.stdout, "all have ended\n", stranger.stderr)
        self.assertEqual(len(self.sockets(1).splitlines()), sockets)
        self.assertLess(most_memory(workers[1].pid) - before, MOST_GROWTH)
        self.succeed(workers)


if __name__ == "__main__":
    main()

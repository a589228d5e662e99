#!/usr/bin/env python3
"""A connection between ranks that does not move, though all ranks are in the collective: a network that is cut in its middle.

    DLAUNCH_BIN_DIR=build/bin links_test.py [Class.test ...]

Every wait is for an event and has a deadline.
"""

import os
import re
import subprocess
import tempfile
import threading
import unittest

from common import BIN, DLAUNCH, PATIENCE, environment, main, wait_until
from routed_hosts import RoutedHosts

WORKER = os.path.join(os.path.dirname(BIN), "tests", "all_reduce_worker")
DATA = "ipproto tcp sport 32768-60999 dport 32768-60999"  # not the agents' and the store's, one end of which is at 29500


class StalledLinks(unittest.TestCase):
    def setUp(self):
        self.hosts = RoutedHosts(self, 2)
        folder = tempfile.TemporaryDirectory(prefix="dlaunch_links_test.")
        self.addCleanup(folder.cleanup)
        self.jobs = [self.start(i, folder.name) for i in range(2)]

    def start(self, i, folder):
        job = subprocess.Popen([*self.hosts.on(i), DLAUNCH, "--nnodes=2", f"--node-rank={i}", f"--master-addr={self.hosts.address(0)}", "--master-port=29500",
                                f"--local-addr={self.hosts.address(i)}", "--hang-note=3", WORKER, "200000", "1000000"], cwd=folder,
                               env={**environment(), "TMPDIR": folder}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.finish, job)
        return job

    @staticmethod
    def finish(job):
        job.kill()
        job.communicate()

    def wait_for_note(self):
        deadline = threading.Timer(PATIENCE, self.jobs[0].kill)
        deadline.start()
        self.addCleanup(deadline.cancel)
        lines = []
        while not lines or not re.search("nothing has moved for", lines[-1]):
            lines.append(self.jobs[0].stderr.readline())
            self.assertTrue(lines[-1], f"no note: {lines}")
        return lines[-1], self.jobs[0].stderr.readline()

    def expect_both_hosts(self):
        megabytes = 50 << 20  # so the ranks have added up some arrays
        wait_until(lambda: self.hosts.bytes_sent(0) > megabytes, "the ranks exchange data")
        self.cut()
        note, advice = self.wait_for_note()
        one, other = (rf"rank {rank} \({self.hosts.address(rank)}\)" for rank in range(2))
        # One end may have nothing to send at that moment; the end whose data arrive gets no acknowledgement, either.
        ways = [f"{word} {a} {to} {b}" for a, b in ((one, other), (other, one)) for word, to in (("from", "to"), ("between", "and"))]
        self.assertRegex(note, r"^dlaunch: nothing has moved for [^:]+: .*; no byte (" + "|".join(ways) + r") has been acknowledged for [\d.]+ m?s, "
                         r"\d+ retransmissions: a firewall drops them, or a cable is broken$")
        hosts = [self.hosts.address(i) for i in range(2)]
        self.assertIn(advice, [f"dlaunch: the network between them: dlaunch doctor --peer={b} on host {a}\n" for a, b in (hosts, hosts[::-1])])

    def test_packets_of_one_direction_are_dropped(self):
        self.cut = lambda: self.hosts.drop_between(0, 1, DATA)
        self.expect_both_hosts()

    def test_packets_of_both_directions_are_dropped(self):
        def cut():
            self.hosts.drop_between(0, 1, DATA)
            self.hosts.drop_between(1, 0, DATA)
        self.cut = cut
        self.expect_both_hosts()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Elastic jobs that elect their leader through etcd, on separate hosts.

    DLAUNCH_BIN_DIR=build/bin etcd_test.py [Class.test ...]

Every wait is for an event and has a deadline.
"""

import glob
import os
import shutil
import signal
import subprocess
import sys

from common import children_of, helpers_of, main, summary
from elastic_case import Elastic
from hosts import Hosts

# Carries connections to port 2399 of the address on to its port 2379.
RELAY = """
import selectors, socket, sys
listener = socket.create_server((sys.argv[1], 2399))
print("up", flush=True)
events = selectors.DefaultSelector()
events.register(listener, selectors.EVENT_READ)
peers = {}
while True:
    for key, _ in events.select():
        if key.fileobj is listener:
            one, other = listener.accept()[0], socket.create_connection((sys.argv[1], 2379))
            for a, b in ((one, other), (other, one)):
                peers[a] = b
                events.register(a, selectors.EVENT_READ)
            continue
        if key.fileobj not in peers:
            continue
        try:
            data = key.fileobj.recv(65536)
            if data:
                peers[key.fileobj].sendall(data)
        except OSError:
            data = b""
        if not data:
            for end in (peers.pop(key.fileobj), key.fileobj):
                peers.pop(end, None)
                events.unregister(end)
                end.close()
"""


class WithEtcd(Elastic):
    hosts_wanted = 3
    OPTIONS = ("--nnodes=2:3", "--last-call-timeout=1", "--rdzv-backend=etcd", "--node-timeout=2")

    def setUp(self):
        super().setUp()
        if not shutil.which("etcd"):
            self.skipTest("etcd is not installed (Debian: etcd-server)")
        self.etcd = None
        self.start_etcd()

    def start_etcd(self):
        address = f"http://{Hosts.SWITCH_ADDRESS}"
        log = open(os.path.join(self.dir, "etcd.log"), "a", encoding="utf-8")
        self.addCleanup(log.close)
        self.etcd = subprocess.Popen([*self.hosts.on_switch(), "etcd", "--data-dir", os.path.join(self.dir, "etcd"),
                                      "--listen-client-urls", f"{address}:2379", "--advertise-client-urls", f"{address}:2379",
                                      "--listen-peer-urls", f"{address}:2380", "--initial-advertise-peer-urls", f"{address}:2380",
                                      "--initial-cluster", f"default={address}:2380"], stdout=log, stderr=log)
        self.addCleanup(self.finish, self.etcd)

    def start(self, i, *options, **more):
        return super().start(i, f"--rdzv-endpoint={Hosts.SWITCH_ADDRESS}", f"--local-addr={self.hosts.addresses[i]}", *options, **more)

    def test_every_leader_in_turn_may_be_killed_and_come_back(self):
        for i in range(3):
            self.start(i, *self.OPTIONS)
        for _ in range(3):
            leader = self.leader(self.world({0, 1, 2}))
            self.agents[leader].kill()
            ranks = self.world({0, 1, 2} - {leader})
            self.assertNotEqual(self.leader(ranks), leader)
            self.start(leader, *self.OPTIONS)
            self.world({0, 1, 2})
        self.done()
        self.assertEqual([self.end(i) for i in range(3)], [0] * 3)

    def test_a_stopped_leader_hands_leadership_over(self):
        for i in range(3):
            self.start(i, *self.OPTIONS)
        leader = self.leader(self.world({0, 1, 2}))
        self.agents[leader].terminate()
        self.assertEqual(self.end(leader), 143)
        others = {0, 1, 2} - {leader}
        self.world(others)
        self.done()
        self.assertEqual([self.end(i) for i in others], [0, 0])

    def test_the_job_continues_without_a_leader_that_is_cut_off_and_rejoins(self):
        for i in range(3):
            self.start(i, *self.OPTIONS)
        leader = self.leader(self.world({0, 1, 2}))
        self.hosts.pull_cable(leader)
        self.world({0, 1, 2} - {leader})
        self.wait_until(lambda: not self.workers_of(leader), "nothing runs on the node that is cut off")
        self.hosts.plug_cable(leader)
        self.world({0, 1, 2})
        self.done()
        self.assertEqual([self.end(i) for i in range(3)], [0] * 3)

    def test_a_node_that_was_away_at_the_end_returns_the_jobs_code(self):
        for i in range(3):
            self.start(i, *self.OPTIONS, "--max-restarts=0")
        away = self.leader(self.world({0, 1, 2}))
        self.hosts.pull_cable(away)
        others = sorted({0, 1, 2} - {away})
        self.world(set(others))
        keeper = helpers_of(self.agents[others[0]])["keeper"]
        os.kill(children_of(keeper)[0], signal.SIGKILL)  # the worker
        self.assertEqual([self.end(i) for i in others], [137] * 2)
        self.hosts.plug_cable(away)
        self.assertEqual(self.end(away), 137)
        self.assertIn("the job has ended while this node was away", self.said(away))
        self.assertRegex(summary(self.said(away)), r"^dlaunch: failed: rank \d .* was killed by signal 9 \(SIGKILL")
        # The next job of the same name is not touched by it.
        for said in glob.glob(os.path.join(self.dir, "said.*")):
            os.remove(said)
        for i in range(3):
            self.start(i, *self.OPTIONS)
        self.world({0, 1, 2})
        self.done()
        self.assertEqual([self.end(i) for i in range(3)], [0] * 3)

    def test_an_endpoint_of_etcd_that_is_frozen_hides_nothing(self):
        """The first is a relay to the real one; the agents watch through it when it stops moving."""
        relay = subprocess.Popen([*self.hosts.on_switch(), sys.executable, "-c", RELAY, Hosts.SWITCH_ADDRESS], stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.finish, relay)
        self.assertEqual(relay.stdout.readline(), "up\n")
        relay.stdout.close()
        for i in range(3):
            Elastic.start(self, i, f"--rdzv-endpoint={Hosts.SWITCH_ADDRESS}:2399,{Hosts.SWITCH_ADDRESS}:2379",
                          f"--local-addr={self.hosts.addresses[i]}", *self.OPTIONS)
        leader = self.leader(self.world({0, 1, 2}))
        relay.send_signal(signal.SIGSTOP)
        self.agents[leader].kill()
        self.world({0, 1, 2} - {leader})
        relay.send_signal(signal.SIGCONT)
        self.done()
        self.assertEqual([self.end(i) for i in range(3) if i != leader], [0, 0])

    def test_etcd_may_come_late_and_be_lost_for_a_while(self):
        self.etcd.kill()
        self.etcd.wait()
        for i in range(3):
            self.start(i, *self.OPTIONS)
        self.wait_until(lambda: "the election at etcd" in self.said(0), "host 0 says that etcd does not answer")
        self.start_etcd()
        self.world({0, 1, 2})
        self.etcd.kill()
        self.etcd.wait()
        self.wait_until(lambda: not any(self.workers_of(i) for i in range(3)), "nobody leads, nothing runs")
        before = max(self.rounds())
        self.start_etcd()
        self.wait_until(lambda: max(self.rounds()) > before, "another round")
        self.world({0, 1, 2})
        self.done()
        self.assertEqual([self.end(i) for i in range(3)], [0] * 3)


if __name__ == "__main__":
    main()

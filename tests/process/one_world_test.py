#!/usr/bin/env python3
"""Two worlds of a job never have live workers at one time, whoever is frozen: an agent alone, whose keeper and workers go on,
or a whole node; a follower or the leader.

    DLAUNCH_BIN_DIR=build/bin one_world_test.py [Class.test ...]

Each worker is a witness: it writes when it began and, again and again, that it lives. Every wait is for an event.
"""

import glob
import os
import re
import signal

from common import main
from elastic_case import Elastic

# Writes the first and the last time (CLOCK_MONOTONIC, ns) at which it was alive. It cannot notice being suspended.
WITNESS = """
import os, time
now = lambda: time.clock_gettime_ns(time.CLOCK_MONOTONIC)
name = "lived." + "-".join(os.environ[x] for x in ("DLAUNCH_ROUND", "RANK", "WORLD_SIZE", "HOST")) + "-" + str(os.getpid())
file = os.open(name, os.O_CREAT | os.O_WRONLY, 0o644)
began = now()
while not os.path.exists("done"):
    os.pwrite(file, f"{began} {now()}\\n".encode(), 0)
    time.sleep(0.001)
"""


class Witnessed(Elastic):
    hosts_wanted = 3

    def start_witnesses(self, *options):
        for i in range(3):
            self.start(i, "--nnodes=2:3", "--last-call-timeout=1", "--node-timeout=1", *options, command=("python3", "-c", WITNESS))
        self.world_of({0, 1, 2})

    def lives(self):
        """(round, host, began, last seen) of all witnesses."""
        found = []
        for name in os.listdir(self.dir):
            match = re.fullmatch(r"lived\.(\d+)-(\d+)-(\d+)-(\d+)-\d+", name)
            if match:
                with open(os.path.join(self.dir, name), encoding="utf-8") as file:
                    words = file.read().split()
                if len(words) == 2:
                    found.append((int(match.group(1)), int(match.group(4)), int(words[0]), int(words[1])))
        return found

    def world_of(self, hosts):
        """Waits for a newest round of these hosts' witnesses; its number."""
        def newest():
            lives = self.lives()
            last = max((life[0] for life in lives), default=-1)
            return {life[1] for life in lives if life[0] == last} == set(hosts)
        self.wait_until(newest, f"a world of hosts {sorted(hosts)}")
        return max(life[0] for life in self.lives())

    def check_worlds_never_met(self):
        lives = self.lives()
        for number in {life[0] for life in lives}:
            ended = max((last for other, _, _, last in lives if other < number), default=0)
            began = min(first for other, _, first, _ in lives if other == number)
            self.assertLess(ended, began, f"a worker of an earlier round lived {(ended - began) / 1e6:.0f} ms into round {number}")

    def freeze(self, victim):
        """Only its agent: its keeper, guard and worker go on."""
        before = self.world_of({0, 1, 2})
        self.agents[victim].send_signal(signal.SIGSTOP)
        self.assertGreater(self.world_of({0, 1, 2} - {victim}), before)
        self.check_worlds_never_met()
        self.agents[victim].send_signal(signal.SIGCONT)
        self.world_of({0, 1, 2})
        self.check_worlds_never_met()

    def end_well(self):
        self.done()
        self.assertEqual([self.end(i) for i in range(3)], [0] * 3)
        self.check_worlds_never_met()


class OneEndpoint(Witnessed):
    def test_a_frozen_agent(self):
        self.start_witnesses("--rdzv-endpoint=10.213.8.1:29400")
        for victim in (1, 2, 1):
            self.freeze(victim)
        self.end_well()


class Replaced(Witnessed):
    """The leader's agent is killed while another agent is frozen, and both are replaced: no node remembers the first world."""

    def start_witness(self, i):
        self.start(i, "--nnodes=2", "--rdzv-endpoint=10.213.8.1:29400", "--node-timeout=2", command=("python3", "-c", WITNESS))

    def test_a_frozen_agent_that_nobody_remembers(self):
        self.start_witness(0)
        self.start_witness(1)
        self.world_of({0, 1})
        self.agents[1].send_signal(signal.SIGSTOP)
        self.agents[0].kill()
        self.end(0)
        marks = glob.glob(os.path.join(self.tmp, f"dlaunch-leader-{os.getuid()}-*_10.213.8.1_29400"))
        self.assertEqual(len(marks), 1, "the killed leader has left its mark")
        self.start_witness(0)
        self.start_witness(2)
        self.wait_until(lambda: any(life[1] == 2 for life in self.lives()), "a worker on host 2")
        began = min(first for _, host, first, _ in self.lives() if host == 2)
        ended = max(last for _, host, _, last in self.lives() if host == 1)
        self.assertLess(ended, began, f"a worker of the first world lived {(ended - began) / 1e6:.0f} ms into the second")
        self.done()
        self.assertEqual([self.end(0), self.end(2)], [0, 0])
        self.assertEqual([mark for mark in marks if os.path.exists(mark)], [], "an orderly end removes it")


class ThreeEndpoints(Witnessed):
    OPTIONS = ("--rdzv-endpoint=10.213.8.1,10.213.8.2,10.213.8.3",)

    def test_a_frozen_agent_that_follows(self):
        self.start_witnesses(*self.OPTIONS)
        self.freeze(2)
        self.end_well()

    def test_a_frozen_agent_that_leads(self):
        self.start_witnesses(*self.OPTIONS)
        self.freeze(0)
        self.end_well()

    def test_a_stopped_agent_with_a_worker_that_does_not_stop(self):
        """The other nodes restart once its worker has ended, and not while it may still run for --stop-timeout."""
        for i in range(3):
            self.start(i, "--nnodes=2:3", "--last-call-timeout=1", "--node-timeout=1", "--stop-timeout=3", *self.OPTIONS,
                       command=("python3", "-c", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + WITNESS))
        self.world_of({0, 1, 2})
        self.agents[0].terminate()
        self.world_of({1, 2})
        self.check_worlds_never_met()
        self.done()
        self.assertEqual([self.end(i) for i in range(3)], [143, 0, 0])


if __name__ == "__main__":
    main()

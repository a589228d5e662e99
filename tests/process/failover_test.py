#!/usr/bin/env python3
"""Elastic jobs with three endpoints, on separate hosts: the leader is killed, frozen and cut off.

    DLAUNCH_BIN_DIR=build/bin failover_test.py [Class.test ...]

Every wait is for an event and has a deadline.
"""

import signal

from common import main
from elastic_case import TOKEN_WORKER, WORKER, Elastic


class ThreeEndpoints(Elastic):
    OPTIONS = ("--nnodes=2:3", "--last-call-timeout=1", "--rdzv-endpoint=10.213.8.1,10.213.8.2,10.213.8.3", "--node-timeout=2")
    hosts_wanted = 3

    def test_fencing_tokens_grow_from_one_leader_to_the_next(self):
        def start(i):
            self.start(i, *self.OPTIONS, command=("sh", "-c", TOKEN_WORKER))
        for i in range(3):
            start(i)
        self.world({0, 1, 2})
        for i in range(2):
            self.agents[i].kill()
            self.world({0, 1, 2} - {i})
            start(i)
            self.world({0, 1, 2})
        self.done()
        self.assertEqual([self.end(i) for i in range(3)], [0] * 3)
        tokens = self.tokens()
        self.assertGreaterEqual(len(tokens), 5)
        self.assertEqual(sorted(set(tokens)), tokens, "each world's is higher, and all its workers have the same")
        self.assertLess(tokens[-1], 1 << 53)

    def test_every_node_in_turn_may_be_killed_and_come_back(self):
        for i in range(3):
            self.start(i, *self.OPTIONS)
        self.world({0, 1, 2})
        for i in range(3):
            self.agents[i].kill()
            self.world({0, 1, 2} - {i})
            view = self.view((i + 1) % 3, "10.213.8.1,10.213.8.2,10.213.8.3")
            self.assertEqual((view["state"], len(view["nodes"])), ("running", 2), "of all endpoints the one that leads answers")
            self.start(i, *self.OPTIONS)
            ranks = self.world({0, 1, 2})
            self.assertEqual({r[3] for r in ranks.values()}, {0})
        self.done()
        self.assertEqual([self.end(i) for i in range(3)], [0] * 3)

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

    def test_a_leader_that_waits_alone_joins_the_job_when_its_cable_is_mended(self):
        """It does not wait at its own endpoint first; also if the endpoints require the secret."""
        self.write_secret("token", "s3cret")
        for i in range(3):
            self.start(i, *self.OPTIONS, "--token-file=token", "--verbose")
        leader = self.leader(self.world({0, 1, 2}))
        before = len(self.said(leader))

        def said(text):
            return text in self.said(leader)[before:]
        self.hosts.pull_cable(leader)
        self.wait_until(lambda: said(f"waiting at {self.hosts.addresses[leader]}"), "the leader waits at its own endpoint")
        self.world({0, 1, 2} - {leader})
        self.hosts.plug_cable(leader)
        self.wait_until(lambda: said("leads the job: joining it"), "the leader asks the other endpoints")
        self.world({0, 1, 2})
        self.done()
        self.assertEqual([self.end(i) for i in range(3)], [0] * 3)

    def test_a_node_that_was_away_at_the_end_returns_the_jobs_code(self):
        for i in range(3):
            self.start(i, *self.OPTIONS)
        away = self.leader(self.world({0, 1, 2}))
        self.hosts.pull_cable(away)
        others = sorted({0, 1, 2} - {away})
        leader = self.leader(self.world(set(others)))
        self.done()
        self.wait_until(lambda: "the job has ended; waiting up to 8 s to report that to host " in self.said(leader), "the leader waits for the absent node")
        self.hosts.plug_cable(away)
        self.assertEqual([self.end(i) for i in (away, *others)], [0] * 3)

    def test_a_signal_to_all_agents_ends_the_job_on_all(self):
        for i in range(3):
            self.start(i, *self.OPTIONS)
        self.world({0, 1, 2})
        rounds = len(self.rounds())
        for signo in (signal.SIGSTOP, signal.SIGTERM, signal.SIGCONT):  # all get it at one moment, however slow this test is
            for agent in self.agents.values():
                agent.send_signal(signo)
        self.assertEqual([self.end(i) for i in range(3)], [143] * 3)
        self.assertEqual(len(self.rounds()), rounds, "nobody began anew")

    def test_a_fixed_number_of_nodes(self):
        for i in range(3):
            self.start(i, "--nnodes=3", *self.OPTIONS[1:])
        self.world({0, 1, 2})
        self.done()
        self.assertEqual([self.end(i) for i in range(3)], [0] * 3)

    def test_no_worker_outlives_the_time_in_which_its_node_may_be_missed(self):
        """However long it was to be given: by then another may have its rank."""
        for i in range(3):
            # Two may begin without the third; those must make way for it.
            self.start(i, *self.OPTIONS, "--stop-timeout=1000",
                       command=("sh", "-c", "[ $WORLD_SIZE = 3 ] && trap '' TERM\n" + WORKER))
        leader = self.leader(self.world({0, 1, 2}))
        self.hosts.pull_cable(leader)
        self.wait_until(lambda: not self.workers_of(leader), "nothing runs on the node that is cut off")
        self.world({0, 1, 2} - {leader})

    def test_a_frozen_leader_that_wakes_up_does_no_harm(self):
        for i in range(3):
            self.start(i, *self.OPTIONS)
        leader = self.leader(self.world({0, 1, 2}))
        self.agents[leader].send_signal(signal.SIGSTOP)
        self.world({0, 1, 2} - {leader})
        self.wait_until(lambda: not self.workers_of(leader), "the frozen agent's workers are gone")
        self.agents[leader].send_signal(signal.SIGCONT)
        self.world({0, 1, 2})
        self.done()
        self.assertEqual([self.end(i) for i in range(3)], [0] * 3)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Elastic jobs with one endpoint, on separate hosts: nodes come, leave, are killed and frozen.

    DLAUNCH_BIN_DIR=build/bin elastic_test.py [Class.test ...]

Every wait is for an event and has a deadline.
"""

import json
import os
import re
import signal
import subprocess

from common import DLAUNCH, PATIENCE, TORCH_PYTHON, helpers_of, main, remedy, summary
from elastic_case import WORKER, Elastic


class OneEndpoint(Elastic):
    def options(self, nodes="2:4", *more):
        return (f"--nnodes={nodes}", "--last-call-timeout=1", "--rdzv-endpoint=10.213.8.1:29400", *more)

    def test_nodes_come_late_and_each_is_taken_in(self):
        for i in (0, 1):
            self.start(i, *self.options())
        self.world({0, 1})
        for i in (2, 3):
            self.start(i, *self.options())
            ranks = self.world(set(range(i + 1)))
            self.assertEqual({r[3] for r in ranks.values()}, {0}, "to come is no failure")
        self.done()
        self.assertEqual([self.end(i) for i in range(4)], [0] * 4)

    def test_the_job_continues_without_a_killed_node(self):
        for i in range(4):
            self.start(i, *self.options(), "--events=events")
        before = self.world({0, 1, 2, 3})
        first = max(self.rounds())  # on a busy machine the last node may have come after the last call
        self.agents[2].kill()
        after = self.world({0, 1, 3})
        second = max(self.rounds())
        order = lambda ranks: [ranks[rank][0] for rank in sorted(ranks) if ranks[rank][0] != 2]
        self.assertEqual(order(after), order(before), "who stays keeps its place among the others")
        self.done()
        self.assertEqual([self.end(i) for i in (0, 1, 3)], [0] * 3)
        with open(os.path.join(self.dir, "events"), encoding="utf-8") as file:
            events = [json.loads(line) for line in file]
        count = lambda kind, number: sum(e["event"] == kind and e["round"] == number for e in events)
        self.assertEqual([count("started", first), count("lost", first), count("started", second), count("failed", second)], [4, 1, 3, 0])
        self.assertEqual(sorted(e["host"] for e in events if e["event"] == "joined"), [f"host{i}" for i in range(4)])
        self.assertEqual([(e["nodes"], e["world_size"]) for e in events if e["event"] == "world" and e["round"] in (first, second)],
                         [(4, 4), (3, 3)])
        self.assertEqual([e["host"] for e in events if e["event"] == "lost"], ["host2"])
        self.assertEqual(events[-1]["event"], "ended")

    def test_below_the_minimum_the_others_wait_for_a_replacement(self):
        for i in range(2):
            self.start(i, *self.options("2"), "--max-restarts=1")
        self.world({0, 1})
        before = len(self.said(0))  # it may have waited for host 1, too
        self.agents[1].kill()
        self.wait_until(lambda: "waiting for 1 more node of 2 (here: host0)" in self.said(0)[before:], "host 0 waits for another node")
        self.assertEqual(self.workers_of(0), [])
        view = self.view(2, "10.213.8.1")
        self.assertEqual((view["state"], view["waiting_for"]), ("gathering", "1 more node of 2 (here: host0)"))
        self.assertEqual([i["number"] for i in view["incidents"]], [0])
        self.start(2, *self.options("2"), "--max-restarts=1")
        self.world({0, 2})
        view = self.view(2, "10.213.8.1")
        self.assertEqual((view["state"], view["round"], view["world_size"], view["waiting_for"]), ("running", 1, 2, ""))
        self.assertEqual([(n["node_rank"], n["host"], n["first_rank"], n["state"]) for n in view["nodes"]],
                         [(0, "host0", 0, "running"), (1, "host2", 1, "running")])
        self.done()
        self.assertEqual([self.end(i) for i in (0, 2)], [0, 0])

    def test_a_spare_takes_the_place_of_a_killed_node(self):
        for i in range(3):
            self.start(i, *self.options("3"), "--spares=1")
        before = self.world({0, 1, 2})
        self.start(3, *self.options("3"), "--spares=1")
        self.wait_until(lambda: "waits as a spare" in self.said(0), "host 3 is a spare")
        self.agents[1].kill()
        after = self.world({0, 2, 3})
        self.assertEqual([after[rank][0] for rank in range(3)], [3 if before[rank][0] == 1 else before[rank][0] for rank in range(3)])
        self.done()
        self.assertEqual([self.end(i) for i in (0, 2, 3)], [0] * 3)

    def test_a_stopped_node_leaves_alone(self):
        for i in range(3):
            self.start(i, *self.options("2:3"))
        self.world({0, 1, 2})
        self.agents[1].terminate()
        self.assertEqual(self.end(1), 143)
        self.world({0, 2})
        self.done()
        self.assertEqual([self.end(i) for i in (0, 2)], [0, 0])

    def test_a_signal_ends_a_job_of_fixed_size(self):
        for i in range(2):
            self.start(i, *self.options("2"))
        self.world({0, 1})
        self.agents[1].terminate()
        self.assertEqual([self.end(i) for i in (0, 1)], [143, 143])

    def test_the_job_continues_without_a_frozen_node_which_rejoins(self):
        for i in range(3):
            self.start(i, *self.options("2:3"), "--node-timeout=1")
        self.world({0, 1, 2})
        self.agents[1].send_signal(signal.SIGSTOP)
        self.world({0, 2})
        self.wait_until(lambda: not self.workers_of(1), "the frozen agent's workers are gone")
        self.agents[1].send_signal(signal.SIGCONT)
        self.world({0, 1, 2})
        self.done()
        self.assertEqual([self.end(i) for i in range(3)], [0] * 3)

    def test_what_a_lost_node_still_runs_does_not_come_to_the_next_rounds_store(self):
        """Agent and keeper are suspended, so that no process ends the worker there."""
        for i in range(3):
            self.start(i, *self.options("2:3"), "--node-timeout=1")
        self.world({0, 1, 2})
        store = ("store", "set", "late", "1", "--endpoint=10.213.8.1:29400")

        def write_from(i):
            return subprocess.run([*self.hosts.on(i), DLAUNCH, *store], capture_output=True, text=True, check=False, timeout=PATIENCE).returncode
        self.assertEqual(write_from(1), 0)
        frozen = list(helpers_of(self.agents[1]).values())
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        self.world({0, 2})
        self.assertTrue(self.workers_of(1), "its worker lives")
        self.assertNotEqual(write_from(1), 0)
        self.assertEqual(write_from(2), 0)
        rejected = r"rejected 10\.213\.8\.2:\d+: its node was lost; its workers belong to an earlier round"
        self.wait_until(lambda: re.search(rejected, self.said(0)), "the leader reports what it has rejected")
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
        self.world({0, 1, 2})
        self.assertEqual(write_from(1), 0)
        self.done()
        self.assertEqual([self.end(i) for i in range(3)], [0] * 3)

    def test_all_nodes_end_with_the_cause_of_the_failure(self):
        script = WORKER.replace("while", '[ "$RANK" = 2 ] && { while [ "$(ls said.* | wc -l)" -lt 3 ]; do sleep 0.02; done; exit 9; }\nwhile')
        for i in range(3):
            self.start(i, *self.options("2:3"), command=("sh", "-c", script))
        self.assertEqual([self.end(i) for i in range(3)], [9] * 3)
        for i in range(3):
            self.assertRegex(summary(self.said(i)), r"failed: rank 2 \(local rank 0, node 2, host host\d, pid \d+\) exited with code 9")

    def test_a_restart_counts_alike_everywhere(self):
        script = WORKER.replace("while", '[ "$RANK" = 1 ] && [ "$TORCHELASTIC_RESTART_COUNT" = 0 ] && exit 9\nwhile')
        for i in range(2):
            self.start(i, *self.options("2"), "--max-restarts=3", command=("sh", "-c", script))
        self.wait_until(lambda: len(self.rounds().get(1, {})) == 2, "a second round")
        self.assertEqual({r[3] for r in self.rounds()[1].values()}, {1})
        self.done()
        self.assertEqual([self.end(i) for i in range(2)], [0, 0])

    def test_the_job_continues_without_an_unhealthy_node(self):
        for i in range(3):
            self.start(i, *self.options("2:3"), "--health-check", 'echo "checking $HOST"; test ! -e ill.$HOST || { echo "no disk" >&2; exit 3; }')
        self.world({0, 1, 2})
        self.assertIn("health check: checking 1", self.said(1))
        with open(os.path.join(self.dir, "ill.1"), "w", encoding="utf-8"):
            pass
        self.agents[2].kill()
        self.assertEqual(self.end(1), 1)
        self.assertRegex(summary(self.said(1)), r"failed: node \d \(host host1\) failed its health check: exited with code 3: no disk")
        self.wait_until(lambda: "waiting for 1 more node of at least 2" in self.said(0), "host 0 waits for another node")
        self.start(2, *self.options("2:3"), "--health-check", "true")
        self.world({0, 2})
        self.done()
        self.assertEqual([self.end(i) for i in (0, 2)], [0, 0])

    def test_an_unwell_node_that_serves_ends_the_job(self):
        self.start(0, "--standalone", "--local-addr=127.0.0.1", "--health-check", "exit 3")
        self.assertEqual(self.end(0), 1)
        self.assertRegex(summary(self.said(0)), "failed: .* failed its health check: exited with code 3")
        self.assertRegex(remedy(self.said(0)), r"^run the health check by hand on host \S+: ")
        self.start(0, *self.options("2:3"), "--health-check", "exit 3")
        self.assertEqual(self.end(0), 1)
        self.start(0, "--standalone", "--local-addr=127.0.0.1", "--health-check", "touch checking; sleep 1000")
        self.wait_until(lambda: os.path.exists(os.path.join(self.dir, "checking")), "the check runs")
        self.agents[0].terminate()
        self.assertEqual(self.end(0), 143)

    def test_other_rules_are_refused_and_named(self):
        self.start(0, *self.options("2:3"), "--spares=1")
        self.wait_until(lambda: "waiting for 1 more node" in self.said(0), "host 0 waits")
        self.start(1, *self.options("2:3"))
        self.assertEqual(self.end(1), 1)
        self.assertIn("refused this node: this job has --spares=1, not --spares=0", summary(self.said(1)))

    def test_waiting_nodes_name_the_missing_ones(self):
        for i in range(2):
            self.start(i, *self.options("3:4"))
        for i in range(2):
            self.wait_until(lambda i=i: "waiting for 1 more node of at least 3 (here: host" in self.said(i), f"host {i} says for whom it waits")

    def test_a_node_that_keeps_failing_is_left_out(self):
        script = WORKER.replace("while", '[ "$HOST" = 1 ] && exit 9\nwhile')
        options = (*self.options("2:3"), "--max-restarts=9", "--restart-backoff=0", "--exclude-after=2")
        for i in range(3):
            self.start(i, *options, command=("sh", "-c", script))
        self.assertEqual(self.end(1), 9)
        self.assertIn("this node is excluded: it failed 2 times (--exclude-after)", summary(self.said(1)))
        self.world({0, 2})
        self.start(1, *options, command=("sh", "-c", script))
        self.assertEqual(self.end(1), 1)
        self.assertIn("host host1 is excluded: it failed 2 times (--exclude-after)", summary(self.said(1)))
        self.done()
        self.assertEqual([self.end(i) for i in (0, 2)], [0, 0])

    def test_only_nodes_with_the_secret_join(self):
        for name, secret in (("right", "s3cret"), ("wrong", "other")):
            self.write_secret(name, secret + "\n")
        self.start(0, *self.options("2"), "--token-file=right")
        self.wait_until(lambda: "waiting for 1 more node" in self.said(0), "host 0 waits")
        self.start(1, *self.options("2"), "--token-file=wrong")
        self.assertEqual(self.end(1), 1)
        self.assertIn("refused this node: it has another secret than this node", summary(self.said(1)))
        self.start(3, *self.options("2"))
        self.assertEqual(self.end(3), 1)
        self.assertIn("refused this node: this node has no secret; if the job has one", summary(self.said(3)))
        self.wait_until(lambda: "refused an agent at 10.213.8.4" in self.said(0), "host 0 reports whom it has refused")
        self.assertIn("this job has a secret; give it to that node", self.said(0))
        self.start(2, *self.options("2"), "--token-file=right")
        self.world({0, 2})
        self.done()
        self.assertEqual([self.end(i) for i in (0, 2)], [0, 0])

    def test_a_secret_is_required_of_both_ends(self):
        self.start(0, *self.options("2"))
        self.wait_until(lambda: "waiting for 1 more node" in self.said(0), "host 0 waits")
        self.write_secret("token", "s3cret")
        self.start(1, *self.options("2"), "--token-file=token")
        self.assertEqual(self.end(1), 1)
        self.assertIn("this job has no secret, but that agent was given one", summary(self.said(1)))

    def test_another_job_at_the_same_endpoint_is_refused(self):
        self.start(0, *self.options("2"), "--rdzv-id=one")
        self.wait_until(lambda: "waiting for 1 more node" in self.said(0), "host 0 waits")
        self.start(1, *self.options("2"), "--rdzv-id=two")
        self.assertEqual(self.end(1), 1)
        self.assertIn("this is job 'one', not 'two'", summary(self.said(1)))
        self.start(2, *self.options("2"), "--rdzv-id=one")
        self.world({0, 2})
        self.done()
        self.assertEqual([self.end(i) for i in (0, 2)], [0, 0])


# PyTorch's workers: each round all of them find each other through the round's store, and agree on a sum.
TORCH_WORKER = """
import os, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(total)
assert total.item() == sum(range(1, dist.get_world_size() + 1)), total
name = "said.{DLAUNCH_ROUND}.{RANK}.{HOST}".format(**os.environ)
with open(name + ".tmp", "w") as file:
    file.write("{GROUP_RANK} {WORLD_SIZE} {TORCHELASTIC_RESTART_COUNT} {MASTER_ADDR}".format(**os.environ))
os.rename(name + ".tmp", name)
while not os.path.exists("done"):
    time.sleep(0.02)
dist.destroy_process_group()  # PyTorch 2.15 aborts now and then at the end of a process that has not done it
"""


class PyTorch(Elastic):
    hosts_wanted = 3
    OPTIONS = ("--nnodes=2:3", "--last-call-timeout=1", "--rdzv-endpoint=10.213.8.1,10.213.8.2,10.213.8.3", "--node-timeout=2")

    def start_torch(self, i):
        if subprocess.run([TORCH_PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no PyTorch here (Debian: python3-torch)")
        return self.start(i, *self.OPTIONS, command=(TORCH_PYTHON, "-c", TORCH_WORKER))

    def test_its_workers_find_each_other_in_each_round(self):
        for i in range(3):
            self.start_torch(i)
        self.world({0, 1, 2})
        for lost in (1, 0):
            self.agents[lost].kill()
            self.world({0, 1, 2} - {lost})
            self.start_torch(lost)
            self.world({0, 1, 2})
        self.done()
        self.assertEqual([self.end(i) for i in range(3)], [0] * 3)


if __name__ == "__main__":
    main()

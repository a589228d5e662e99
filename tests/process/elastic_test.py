#!/usr/bin/env python3
"""Elastic jobs of real processes on separate hosts: nodes come, go, are killed, frozen and cut off.

    DLAUNCH_BIN_DIR=build/bin elastic_test.py [Class.test ...]

Nothing here passes by waiting for a time: every wait is for an event, and has a deadline.
"""

import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from common import DLAUNCH, TORCH_PYTHON, environment, helpers_of
from hosts import Hosts

PATIENCE = 90  # seconds until a wait for an event is a failure

# A worker that prints its rank and world, and returns 0 once there is a file named "done".
WORKER = """
echo "$GROUP_RANK $WORLD_SIZE $TORCHELASTIC_RESTART_COUNT $MASTER_ADDR" > said.$DLAUNCH_ROUND.$RANK.$HOST.tmp
mv said.$DLAUNCH_ROUND.$RANK.$HOST.tmp said.$DLAUNCH_ROUND.$RANK.$HOST
while [ ! -e done ]; do sleep 0.02; done
"""

# The same; before printing, it appends the fencing token of its world to the file "tokens".
TOKEN_WORKER = 'echo "$DLAUNCH_ROUND $DLAUNCH_FENCING_TOKEN" >> tokens' + WORKER


class Elastic(unittest.TestCase):
    hosts_wanted = 4

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="dlaunch_elastic_test.")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.hosts = Hosts(self, self.hosts_wanted)
        self.agents = {}

    def tokens(self):
        """The fencing tokens that workers were given, each world's once, in the order of the worlds' beginnings."""
        given = []
        with open(os.path.join(self.dir, "tokens"), encoding="utf-8") as file:
            for line in file:
                if not given or given[-1] != line.split():
                    given.append(line.split())
        return [int(token) for _, token in given]

    def start(self, i, *options, command=("sh", "-c", WORKER)):
        """Starts the agent on host i. Its output goes to a file, since nothing reads a pipe here."""
        said = open(os.path.join(self.dir, f"agent.{i}"), "a+", encoding="utf-8")
        self.addCleanup(said.close)
        name = () if any(option.startswith("--local-addr") for option in options) else (f"--local-addr=host{i}",)
        process = subprocess.Popen([*self.hosts.on(i), DLAUNCH, *name, *options, *command], cwd=self.dir,
                                   env={**environment(), "HOST": str(i), "GLOO_SOCKET_IFNAME": "eth0"}, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        self.agents[i] = process
        self.addCleanup(self.finish, process)
        return process

    @staticmethod
    def finish(process):
        if process.poll() is None:
            process.kill()
        process.wait()

    def said(self, i):
        with open(os.path.join(self.dir, f"agent.{i}"), encoding="utf-8") as file:
            return file.read()

    def wait_until(self, condition, what):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {PATIENCE} s: {what}\n" + "\n".join(
                    f"--- host {i}\n{self.said(i)}" for i in self.agents) + "\n" + " ".join(sorted(os.listdir(self.dir))))
            time.sleep(0.02)

    def rounds(self):
        """By round: {rank: (host, group rank, world size, restart count, store)}."""
        found = {}
        for name in os.listdir(self.dir):
            match = re.fullmatch(r"said\.(\d+)\.(\d+)\.(\d+)", name)
            if match:
                with open(os.path.join(self.dir, name), encoding="utf-8") as file:
                    group_rank, world_size, restarts, store = file.read().split()
                number, rank, host = map(int, match.groups())
                found.setdefault(number, {})[rank] = (host, int(group_rank), int(world_size), int(restarts), store)
        return found

    def world(self, hosts):
        """Waits until each of these hosts has one rank of the newest round; returns its ranks, as in rounds()."""
        def newest():
            rounds = self.rounds()
            if not rounds:
                return None
            ranks = rounds[max(rounds)]
            whole = sorted(ranks) == list(range(len(hosts))) and {r[0] for r in ranks.values()} == set(hosts)
            return ranks if whole and all(r[2] == len(hosts) for r in ranks.values()) else None
        self.wait_until(newest, f"a world of hosts {sorted(hosts)}")
        return newest()

    def leader(self, ranks):
        """The host of the round's store."""
        return self.hosts.addresses.index(next(iter(ranks.values()))[4])

    def write_secret(self, name, secret):
        with open(os.path.join(self.dir, name), "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(secret)

    def view(self, i, endpoint):
        """The output of `dlaunch status --endpoint` on host i."""
        asked = subprocess.run([*self.hosts.on(i), DLAUNCH, "status", "--json", f"--endpoint={endpoint}"], capture_output=True, text=True,
                               check=True, timeout=PATIENCE)
        return json.loads(asked.stdout)

    def done(self):
        with open(os.path.join(self.dir, "done"), "w", encoding="utf-8"):
            pass

    def end(self, i):
        try:
            return self.agents[i].wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"host {i} has not ended\n" + self.said(i)) from None

    def pids_on(self, i):
        listed = subprocess.run(["ip", "netns", "pids", self.hosts.names[i]], capture_output=True, text=True, check=True)
        return [int(pid) for pid in listed.stdout.split()]

    def workers_of(self, i, names=("sh", "sleep")):
        """The pids of the processes on host i that are not dlaunch."""
        found = []
        for pid in self.pids_on(i):
            try:
                with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
                    name = file.read().strip()
                with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                    state = file.read().rpartition(")")[2].split()[0]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if name in names and state not in "ZX":
                found.append(pid)
        return found


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
        self.agents[2].kill()
        after = self.world({0, 1, 3})
        order = lambda ranks: [ranks[rank][0] for rank in sorted(ranks) if ranks[rank][0] != 2]
        self.assertEqual(order(after), order(before), "who stays keeps its place among the others")
        self.done()
        self.assertEqual([self.end(i) for i in (0, 1, 3)], [0] * 3)
        with open(os.path.join(self.dir, "events"), encoding="utf-8") as file:
            events = [json.loads(line) for line in file]
        count = lambda kind, number: sum(e["event"] == kind and e["round"] == number for e in events)
        self.assertEqual([count("joined", 0), count("started", 0), count("lost", 0), count("started", 1), count("failed", 1)], [4, 4, 1, 3, 0])
        self.assertEqual([(e["nodes"], e["world_size"]) for e in events if e["event"] == "world"], [(4, 4), (3, 3)])
        self.assertEqual([e["host"] for e in events if e["event"] == "lost"], ["host2"])
        self.assertEqual(events[-1]["event"], "ended")

    def test_below_the_minimum_the_others_wait_for_a_replacement(self):
        for i in range(2):
            self.start(i, *self.options("2"), "--max-restarts=1")
        self.world({0, 1})
        self.agents[1].kill()
        self.wait_until(lambda: "waiting for 1 more node of 2 (here: host0)" in self.said(0), "host 0 waits for another node")
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
        self.assertRegex(self.said(0), r"rejected 10\.213\.8\.2:\d+: its node was lost; its workers belong to an earlier round")
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
            self.assertRegex(self.said(i).splitlines()[-1], r"failed: rank 2 \(local rank 0, node 2, host host\d, pid \d+\) exited with code 9")

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
        self.assertRegex(self.said(1).splitlines()[-1], r"failed: node \d \(host host1\) failed its health check: exited with code 3: no disk")
        self.wait_until(lambda: "waiting for 1 more node of at least 2" in self.said(0), "host 0 waits for another node")
        self.start(2, *self.options("2:3"), "--health-check", "true")
        self.world({0, 2})
        self.done()
        self.assertEqual([self.end(i) for i in (0, 2)], [0, 0])

    def test_an_unwell_node_that_serves_ends_the_job(self):
        self.start(0, "--standalone", "--local-addr=127.0.0.1", "--health-check", "exit 3")
        self.assertEqual(self.end(0), 1)
        self.assertRegex(self.said(0).splitlines()[-1], "failed: .* failed its health check: exited with code 3")
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
        self.assertIn("refused this node: this job has --spares=1, not --spares=0", self.said(1).splitlines()[-1])

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
        self.assertIn("this node is left out: it failed 2 times (--exclude-after)", self.said(1).splitlines()[-1])
        self.world({0, 2})
        self.start(1, *options, command=("sh", "-c", script))
        self.assertEqual(self.end(1), 1)
        self.assertIn("host host1 is left out: it failed 2 times (--exclude-after)", self.said(1).splitlines()[-1])
        self.done()
        self.assertEqual([self.end(i) for i in (0, 2)], [0, 0])

    def test_only_nodes_with_the_secret_join(self):
        for name, secret in (("right", "s3cret"), ("wrong", "other")):
            self.write_secret(name, secret + "\n")
        self.start(0, *self.options("2"), "--token-file=right")
        self.wait_until(lambda: "waiting for 1 more node" in self.said(0), "host 0 waits")
        self.start(1, *self.options("2"), "--token-file=wrong")
        self.assertEqual(self.end(1), 1)
        self.assertIn("refused this node: it has another secret than this node", self.said(1).splitlines()[-1])
        self.start(3, *self.options("2"))
        self.assertEqual(self.end(3), 1)
        self.assertIn("refused this node: this node has no secret; if the job has one", self.said(3).splitlines()[-1])
        self.assertIn("refused an agent at 10.213.8.4", self.said(0))
        self.assertIn("this job has a secret, which it must be given", self.said(0))
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
        self.assertIn("this job has no secret, but that agent was given one", self.said(1).splitlines()[-1])

    def test_another_job_at_the_same_endpoint_is_refused(self):
        self.start(0, *self.options("2"), "--rdzv-id=one")
        self.wait_until(lambda: "waiting for 1 more node" in self.said(0), "host 0 waits")
        self.start(1, *self.options("2"), "--rdzv-id=two")
        self.assertEqual(self.end(1), 1)
        self.assertIn("this is job 'one', not 'two'", self.said(1).splitlines()[-1])
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
        self.wait_until(lambda: "the job has ended; staying 8 s for host " in self.said(leader), "the leader waits for the absent node")
        self.hosts.plug_cable(away)
        self.assertEqual([self.end(i) for i in (away, *others)], [0] * 3)

    def test_a_signal_to_all_agents_ends_the_job_on_all(self):
        for i in range(3):
            self.start(i, *self.OPTIONS)
        self.world({0, 1, 2})
        rounds = len(self.rounds())
        for agent in self.agents.values():
            agent.terminate()
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
        os.kill(max(self.workers_of(others[0], ("sh",))), signal.SIGKILL)
        self.assertEqual([self.end(i) for i in others], [137] * 2)
        self.hosts.plug_cable(away)
        self.assertEqual(self.end(away), 137)
        self.assertIn("the job has ended while this node was away", self.said(away))
        self.assertRegex(self.said(away).splitlines()[-1], r"^dlaunch: failed: rank \d .* was killed by signal 9 \(SIGKILL")
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
    program = unittest.main(exit=False, verbosity=1)
    skipped_all = program.result.skipped and len(program.result.skipped) == program.result.testsRun
    sys.exit(77 if skipped_all else not program.result.wasSuccessful())

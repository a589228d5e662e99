#!/usr/bin/env python3
"""Ranks that are slower than the others: who is named, on one node and on several.

    DLAUNCH_BIN_DIR=build/bin stragglers_test.py [Class.test ...]
"""

import json
import re
import subprocess
import urllib.request

from common import DLAUNCH, PATIENCE, free_port, main, wait_until
from hang_test import STRAGGLER, Hang


class Slow(Hang):
    def test_a_straggler_is_named(self):
        port = free_port()
        job = self.start("--nproc-per-node=8", f"--master-port={port}", STRAGGLER, "slow", DLAUNCH_STRAGGLER_WINDOW="3")
        self.wait_for_line(job, r"^dlaunch: rank 7 is slow: in the last 3 s it came last to \d+ of \d+ collectives of group default, and the others "
                           rf"waited [\d.]+ m?s for it alone \(\d+ %\); dlaunch dump {self.id} there shows what rank 7 \(pid \d+ on host \S+\) does$")
        done = subprocess.run([DLAUNCH, "status", "--json", self.id], capture_output=True, text=True, timeout=PATIENCE, check=True)
        workers = json.loads(done.stdout)["workers"]
        self.assertEqual(max(workers, key=lambda worker: worker["late_s"])["rank"], 7)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
            late = {int(rank): float(value) for rank, value in
                    re.findall(r'(?m)^dlaunch_rank_late_seconds_total\{rank="(\d+)"\} (\S+)$', answer.read().decode())}
        self.assertEqual(max(late, key=late.get), 7)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE) as answer:
            self.assertIn("rank 7 is slow", answer.read().decode())


class SlowOnAnotherNode(Hang):
    def start_nodes(self, ranks, how):
        self.port = free_port()
        node = ["--nnodes=2", f"--nproc-per-node={ranks}", "--master-addr=127.0.0.1", f"--master-port={self.port}"]
        return [self.start(*node, f"--node-rank={rank}", STRAGGLER, how, DLAUNCH_STRAGGLER_WINDOW="3") for rank in range(2)]

    def statuses(self):
        """Of the nodes that have begun, by node rank."""
        done = subprocess.run([DLAUNCH, "status", "--json", self.id], capture_output=True, text=True, timeout=PATIENCE, check=False)
        return sorted((json.loads(line) for line in done.stdout.splitlines()), key=lambda status: status["node_rank"])

    def metric(self, name):
        """Its values, by label."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=PATIENCE) as answer:
            return {label: float(value) for label, value in
                    re.findall(rf'(?m)^{name}\{{\w+="([^"]*)"\}} (\S+)$', answer.read().decode())}

    def expect_named(self, ranks):
        slow = 2 * ranks - 1
        leader, other = self.start_nodes(ranks, "slow")
        self.wait_for_line(leader, rf"^dlaunch: rank {slow} is slow: in the last 3 s it came last to \d+ of \d+ collectives of group default, and the "
                           rf"others waited [\d.]+ m?s for it alone \(\d+ %\); dlaunch dump {self.id} there shows what rank {slow} \(pid \d+ on host \S+\) does$")
        wait_until(lambda: all(status["straggler"].startswith(f"rank {slow} is slow") for status in self.statuses()), "both nodes know it")
        late = {worker["rank"]: worker["late_s"] for status in self.statuses() for worker in status["workers"]}
        self.assertEqual(len(late), 2 * ranks)
        self.assertEqual(max(late, key=late.get), slow)
        for name in ("dlaunch_rank_late_seconds_total", "dlaunch_rank_last_total", "dlaunch_rank_awaited_seconds_total"):
            values = self.metric(name)
            self.assertEqual(max(values, key=values.get), str(slow), values)
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=PATIENCE) as answer:
            self.assertIn(f"rank {slow} is slow", answer.read().decode())
        for job in (leader, other):
            job.terminate()
        rest = [job.communicate(timeout=PATIENCE)[1] for job in (leader, other)]
        self.assertNotIn(f"rank {slow} is slow", "".join(rest), "it is noted once, by the leader")

    def test_of_two_ranks(self):
        self.expect_named(1)

    def test_of_four_ranks_each(self):
        self.expect_named(4)

    def test_ranks_that_are_alike(self):
        """Each comes last now and then. On a busy machine one may be named for a moment."""
        self.start_nodes(1, "steady")

        def is_fair():
            last = self.metric("dlaunch_rank_last_total")
            window_is_over = sum(last.values()) >= 300  # each takes 20 ms at least
            return (window_is_over and len(last) == 2 and min(last.values()) >= 20 and
                    not any(status["straggler"] for status in self.statuses()))

        wait_until(lambda: [status["state"] for status in self.statuses()] == ["running"] * 2, "both nodes run")
        wait_until(is_fair, "both ranks come last, and none is named")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A real training job while its nodes are killed, frozen, cut off and told to leave, in a random order.

    DLAUNCH_BIN_DIR=build/bin [CHAOS_SECONDS=300] [CHAOS_SEED=7] chaos_test.py

The order is drawn from the seed, which is printed; when each thing happens is the machine's. Whatever happens, once it has
ceased the training ends as it would have otherwise, and nothing is left. Every worker leaves a background process behind in
every round, as data loaders and loggers do.
"""

import json
import os
import random
import re
import signal
import sys
import time

from common import BIN, PATIENCE, main
from elastic_case import Elastic

SECONDS = float(os.environ.get("CHAOS_SECONDS", "20"))
SEED = int(os.environ.get("CHAOS_SEED", "1"))


class Chaos(Elastic):
    hosts_wanted = 4
    OPTIONS = ("--nnodes=2:4", "--last-call-timeout=1", "--rdzv-endpoint=10.213.8.1,10.213.8.2,10.213.8.3", "--node-timeout=1.5",
               "--stop-timeout=3", "--max-restarts=100000", "--restart-backoff=0", "--join-timeout=120", "--events=events")
    EPOCHS = int(SECONDS / 8) + 8

    def begin(self, i):
        """Its worker trains, and ends once the faults have, however quick the training was. It leaves a process behind."""
        train = f"{os.path.join(BIN, 'train_mnist')} --epochs={self.EPOCHS} --checkpoint={self.dir}/checkpoint"
        self.start(i, *self.OPTIONS, command=("sh", "-c", f"setsid sleep 100000 < /dev/null > /dev/null 2>&1 & {train} || exit; while [ ! -e calm ]; do sleep 0.1; done"))

    def named(self, i, name):
        """The pids of the processes of this name on host i."""
        pids = []
        for pid in self.pids_on(i):
            try:
                with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
                    if file.read().strip() == name:
                        pids.append(pid)
            except (FileNotFoundError, ProcessLookupError):
                pass
        return pids

    def kill_one(self, i, name):
        for pid in self.named(i, name)[:1]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def kill_worker(self, i):
        self.kill_one(i, "train_mnist")

    def kill_keeper(self, i):
        self.kill_one(i, "dl-keeper")

    def kill_guard(self, i):
        self.kill_one(i, "dl-guard")

    def kill_agent(self, i):
        self.agents[i].kill()
        self.agents[i].wait()
        self.pause()
        self.begin(i)

    def dismiss_agent(self, i):
        self.agents[i].terminate()
        self.end(i)
        self.pause()
        self.begin(i)

    def freeze_agent(self, i):
        self.agents[i].send_signal(signal.SIGSTOP)
        self.pause()
        self.agents[i].send_signal(signal.SIGCONT)

    def cut_off(self, i):
        self.hosts.pull_cable(i)
        self.pause()
        self.hosts.plug_cable(i)

    def pause(self):
        time.sleep(self.random.uniform(0.1, 4))  # a fault that lasts, not a wait for anything

    def test_training_ends_as_it_would_have_otherwise(self):
        self.random = random.Random(SEED)
        print(f"CHAOS_SEED={SEED}", file=sys.stderr)
        for i in range(4):
            self.begin(i)
        self.wait_until(lambda: os.path.exists(os.path.join(self.dir, "checkpoint")), "the first epoch is over")
        until = time.monotonic() + SECONDS
        happened = {}
        while time.monotonic() < until:
            fault = self.random.choice([self.kill_worker, self.kill_agent, self.kill_keeper, self.kill_guard, self.dismiss_agent,
                                        self.freeze_agent, self.cut_off])
            i = self.random.randrange(4)
            if self.agents[i].poll() is not None:  # it gave up, as one that was alone for too long may
                self.begin(i)
            happened[fault.__name__] = happened.get(fault.__name__, 0) + 1
            fault(i)
            self.pause()
        self.wait_until(self.are_all_back, "all nodes are in one world again")
        with open(os.path.join(self.dir, "calm"), "w", encoding="utf-8"):
            pass
        codes = [self.end(i, 4 * PATIENCE) for i in range(4)]  # on a busy machine much of the training is still to come
        said = "".join(self.said(i) for i in range(4))
        self.assertEqual(codes, [0] * 4, f"after {happened}\n{said}")
        accuracies = re.findall(r"test accuracy (\d+\.\d+) ?%", said)
        self.assertTrue(accuracies, said)
        self.assertGreaterEqual(float(accuracies[-1]), 95, said)
        self.assertEqual([pid for i in range(4) for pid in self.pids_on(i)], [], "nothing is left on any host")
        self.check_worlds()

    def events(self):
        with open(os.path.join(self.dir, "events"), encoding="utf-8") as file:
            return [json.loads(line) for line in file.read().splitlines()]

    def are_all_back(self):
        for i in range(4):
            if self.agents[i].poll() is not None:
                self.begin(i)
        return [event for event in self.events() if event["event"] == "world"][-1]["nodes"] == 4

    def check_worlds(self):
        """In one world every rank was started once, and all worlds were of an allowed size."""
        events = self.events()
        worlds = [e for e in events if e["event"] == "world"]
        self.assertGreater(len(worlds), 1)
        self.assertTrue(all(2 <= e["nodes"] <= 4 for e in worlds), worlds)
        started = {}
        for e in events:
            if e["event"] == "started":
                started.setdefault((e["round"], e["rank"]), []).append(e)
        formed = {}
        for e in worlds:
            formed[e["round"]] = formed.get(e["round"], 0) + 1
        # If no other node learned of a round before its leader was lost, its number may be used again.
        for (number, rank), starts in started.items():
            self.assertLessEqual(len(starts), formed[number], f"rank {rank} of round {number}: {starts}")


del Elastic  # its tests are elastic_test.py's

if __name__ == "__main__":
    main()

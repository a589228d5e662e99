"""What tests of elastic jobs begin with: separate hosts, an agent on each, and what its workers wrote."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import unittest

from common import DLAUNCH, PATIENCE, environment
from hosts import Hosts

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
        self.tmp = os.path.join(self.dir, "tmp")  # a leader's mark there is named after job and endpoint: as other tests' leaders'
        os.mkdir(self.tmp)
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
                                   env={**environment(), "HOST": str(i), "GLOO_SOCKET_IFNAME": "eth0", "TMPDIR": self.tmp}, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
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

    def end(self, i, patience=PATIENCE):
        try:
            return self.agents[i].wait(timeout=patience)
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

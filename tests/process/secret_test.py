#!/usr/bin/env python3
"""What the job's secret protects: HTTP, environments, files, and the store.

    DLAUNCH_BIN_DIR=build/bin secret_test.py [Class.test ...]

Every wait is for an event and has a deadline.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

from common import BIN, DLAUNCH, PATIENCE, TORCH_PYTHON, environment, free_port, helpers_of, main, wait_until
from hosts import Hosts

PYTHON = TORCH_PYTHON
ALL_REDUCE = os.path.join(os.path.dirname(BIN), "tests", "all_reduce_worker")
TOKEN = f"s3cret-{os.getpid()}-of-a-test"


class Secret(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="dlaunch_secret_test.")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, text, mode=0o600):
        with open(self.path(name), "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)
        return self.path(name)

    def start(self, *words, **variables):
        with open(self.path("said"), "a", encoding="utf-8") as said:
            job = subprocess.Popen([DLAUNCH, *words], cwd=self.dir, env={**environment(), **variables}, stdin=subprocess.DEVNULL,
                                   stdout=said, stderr=said)
        self.addCleanup(self.finish, job)
        return job

    @staticmethod
    def finish(job):
        if job.poll() is None:
            job.terminate()
        job.wait(timeout=PATIENCE)

    def said(self):
        with open(self.path("said"), encoding="utf-8") as file:
            return file.read()

    def run_dlaunch(self, *words, **variables):
        return subprocess.run([DLAUNCH, *words], cwd=self.dir, env={**environment(), **variables}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=PATIENCE, check=False)

    def job(self, *options, command=("sh", "-c", "touch runs; exec sleep 1000"), **variables):
        """A job whose worker runs, and its port."""
        port = free_port()
        job = self.start(*options, "--master-addr=127.0.0.1", f"--master-port={port}", *command, **variables)
        wait_until(lambda: os.path.exists(self.path("runs")), "the worker runs")
        return job, port

    @staticmethod
    def ask(port, path, **headers):
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code


class Http(Secret):
    def test_with_a_secret_it_shows_health_alone(self):
        token = self.write("token", TOKEN + "\n")
        _, port = self.job(f"--token-file={token}")
        self.assertEqual(self.ask(port, "/healthz"), 200)
        for path in ("/", "/job", "/status", "/metrics", "/other"):
            self.assertEqual(self.ask(port, path), 401, path)
            self.assertEqual(self.ask(port, path, Authorization="Bearer wrong"), 401, path)
            self.assertEqual(self.ask(port, path, Authorization=f"Bearer {TOKEN}"), 404 if path == "/other" else 200, path)

    def test_dlaunch_status_asks_with_the_secret(self):
        token = self.write("token", TOKEN + "\n")
        _, port = self.job(f"--token-file={token}")
        wrong = self.write("wrong", "other")
        endpoint = f"--endpoint=127.0.0.1:{port}"
        where = f"dlaunch: no job's status at 127.0.0.1:{port}: the job"
        self.assertEqual(self.run_dlaunch("status", endpoint).stderr, f"{where} requires a secret; give the job's --token-file\n")
        self.assertEqual(self.run_dlaunch("status", endpoint, f"--token-file={wrong}").stderr,
                         f"{where} has another secret; give the job's --token-file\n")
        self.assertEqual(self.run_dlaunch("status", endpoint, f"--token-file={token}").returncode, 0)
        self.assertEqual(self.run_dlaunch("status", endpoint, DLAUNCH_TOKEN=TOKEN).returncode, 0)

    def test_a_name_that_is_not_its_own_is_refused(self):
        _, port = self.job()
        for own in (f"127.0.0.1:{port}", "localhost", os.uname().nodename):
            self.assertEqual(self.ask(port, "/job", Host=own), 200, own)
        self.assertEqual(self.ask(port, "/job", Host="evil.example"), 421)
        self.assertEqual(self.ask(port, "/healthz", Host="evil.example"), 200)


class Places(Secret):
    def test_the_secret_is_in_no_environment(self):
        job, _ = self.job(command=("sh", "-c", "cat /proc/$$/environ > worker; touch runs; exec sleep 1000"), DLAUNCH_TOKEN=TOKEN)
        with open(self.path("worker"), "rb") as file:
            self.assertNotIn(TOKEN.encode(), file.read(), "worker")
        for name, pid in helpers_of(job).items():
            with open(f"/proc/{pid}/environ", "rb") as file:
                self.assertNotIn(TOKEN.encode(), file.read(), name)

    def test_a_file_that_others_can_read_is_refused(self):
        token = self.write("token", TOKEN, 0o640)
        done = self.run_dlaunch(f"--token-file={token}", "true")
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stderr, f"dlaunch: cannot read the secret from {token}: other users can read or change it "
                                      f"(its mode is 0640); chmod 600 {token}\n")

    def test_named_hosts_get_the_secret_on_no_command_line(self):
        """--hosts: the shell on each host reads it, here instead of through ssh one on this machine."""
        self.write("rsh", '#!/bin/sh\nshift\nexec "$@"\n', 0o700)
        words = ("--hosts=127.0.0.1,other", "--ssh=./rsh", "--nproc-per-node=1", "sh", "-c", "touch runs.$RANK; exec sleep 1000")
        shown = self.run_dlaunch("--dry-run", "--master-addr=127.0.0.1", *words, DLAUNCH_TOKEN=TOKEN)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertNotIn(TOKEN, shown.stdout)
        port = free_port()
        job = self.start("--master-addr=127.0.0.1", f"--master-port={port}", *words, DLAUNCH_TOKEN=TOKEN)
        wait_until(lambda: job.poll() is not None or all(os.path.exists(self.path(f"runs.{rank}")) for rank in (0, 1)), "both run")
        self.assertIsNone(job.poll(), self.said())
        self.assertEqual(self.ask(port, "/job"), 401)
        self.assertEqual(self.ask(port, "/job", Authorization=f"Bearer {TOKEN}"), 200)
        for pid in filter(str.isdigit, os.listdir("/proc")):
            for kind in ("cmdline", "environ"):
                try:
                    with open(f"/proc/{pid}/{kind}", "rb") as file:
                        self.assertNotIn(TOKEN.encode(), file.read(), f"{kind} of {pid}")
                except OSError:
                    pass

    def test_without_a_secret_an_open_port_is_reported(self):
        done = self.run_dlaunch("--nnodes=1", "--master-addr=0.0.0.0", f"--master-port={free_port()}", "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("can read and change this job's store; set a secret with --token-file=FILE on every node\n", done.stderr)
        done = self.run_dlaunch("--nnodes=1", "--master-addr=0.0.0.0", f"--master-port={free_port()}", "true", DLAUNCH_TOKEN=TOKEN)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        done = self.run_dlaunch("true")
        self.assertEqual((done.returncode, done.stderr), (0, ""))


# A client like PyTorch's: it proves nothing.
PLAIN = """
import socket, struct, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60) as s:
    s.sendall(b"\\0\\xce\\xf7\\x85\\x3c" + b"\\x04" + struct.pack("<Q", 2) + b"/n" + struct.pack("<q", 1))
    try:
        print("answered" if len(s.recv(8)) == 8 else "refused")
    except ConnectionResetError:
        print("refused")
"""

TORCH = """
import datetime, os, torch.distributed as dist
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False, timeout=datetime.timedelta(seconds=60))
store.set("from_torch." + os.environ["RANK"], "yes")
store.wait(["from_torch.0", "from_torch.1"])
"""


class Store(Secret):
    """A job on hosts 0 and 1; host 2 is on the same network, but not part of the job."""

    more = ()

    def setUp(self):
        Secret.setUp(self)
        self.hosts = Hosts(self, 3)
        self.token = self.write("token", TOKEN + "\n")

    def on(self, i, *words, **variables):
        return subprocess.run([*self.hosts.on(i), *words], cwd=self.dir, env={**environment(), **variables}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=PATIENCE, check=False)

    def start_nodes(self, *command):
        """Returns the agents of both nodes once they run, and the store's address."""
        agents = []
        for i in range(2):
            with open(self.path(f"agent.{i}"), "w", encoding="utf-8") as said:
                agents.append(subprocess.Popen(
                    [*self.hosts.on(i), DLAUNCH, "--nnodes=2", f"--node-rank={i}", f"--master-addr={self.hosts.addresses[0]}",
                     "--master-port=29511", f"--token-file={self.token}", *self.more, *command], cwd=self.dir, env={**environment(), "TMPDIR": self.dir},
                    stdin=subprocess.DEVNULL, stdout=said, stderr=said))
            self.addCleanup(self.finish, agents[-1])
        return agents, f"{self.hosts.addresses[0]}:29511"

    def agent_said(self, i):
        with open(self.path(f"agent.{i}"), encoding="utf-8") as file:
            return file.read()

    def start_idle(self):
        """Workers that print their environment, and stay."""
        agents, endpoint = self.start_nodes(
            "sh", "-c", 'env > env.tmp.$RANK && mv env.tmp.$RANK env.$RANK; exec sleep 1000')
        wait_until(lambda: all(os.path.exists(self.path(f"env.{rank}")) for rank in (0, 1)) or
                   any(agent.poll() is not None for agent in agents), "both workers run")
        self.assertEqual([agent.poll() for agent in agents], [None, None], self.agent_said(0) + self.agent_said(1))
        return endpoint

    def test_only_holders_of_the_secret_and_local_nodes_are_answered(self):
        endpoint = self.start_idle()
        asks = [DLAUNCH, "store", "set", f"--endpoint={endpoint}", "k", "v"]
        plain = [sys.executable, "-c", PLAIN, *endpoint.split(":")]
        self.assertEqual([self.on(i, *plain).stdout for i in range(3)], ["answered\n", "answered\n", "refused\n"])
        self.assertEqual(self.on(2, *asks, f"--token-file={self.token}").returncode, 0)
        self.assertEqual(self.on(2, *asks, DLAUNCH_TOKEN=TOKEN).returncode, 0)
        wrong = self.on(2, *asks, f"--token-file={self.write('wrong', 'other')}")
        self.assertEqual((wrong.returncode, wrong.stderr),
                         (1, f"dlaunch: cannot connect to store {endpoint}: it has another secret; give both the same --token-file\n"))
        wait_until(lambda: f"rejected {self.hosts.addresses[2]}" in self.agent_said(0), "node 0 reports whom it has rejected")
        self.assertIn("it has not proved this store's secret, and no node of the job has its address", self.agent_said(0))

    def test_a_worker_proves_its_key_on_every_node(self):
        endpoint = self.start_idle()
        with open(self.path("env.1"), encoding="utf-8") as file:
            given = dict(line.rstrip("\n").partition("=")[::2] for line in file)
        self.assertNotIn("DLAUNCH_TOKEN", given)
        key_file = given["DLAUNCH_STORE_KEY_FILE"]
        self.assertEqual(os.stat(key_file).st_mode & 0o777, 0o600)
        names = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE", "DLAUNCH_STORE_KEY_FILE")
        asked = self.on(2, DLAUNCH, "store", "add", "n", "5", **{name: given[name] for name in names})
        self.assertEqual((asked.returncode, asked.stdout, asked.stderr), (0, "5\n", ""))
        self.assertNotEqual(self.on(2, DLAUNCH, "store", "add", "n", "5", f"--endpoint={endpoint}").returncode, 0)

    @unittest.skipUnless(os.path.exists(ALL_REDUCE), "there is no gloo")
    def test_libdlaunchs_ranks_meet(self):
        agents, _ = self.start_nodes(ALL_REDUCE, "1000")
        self.assertEqual([agent.wait(timeout=PATIENCE) for agent in agents], [0, 0], self.agent_said(0) + self.agent_said(1))

    def test_pytorchs_clients_on_the_nodes_meet(self):
        if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode != 0:
            self.skipTest("there is no PyTorch")
        self.write("client.py", TORCH)
        agents, _ = self.start_nodes(PYTHON, "client.py")
        self.assertEqual([agent.wait(timeout=PATIENCE) for agent in agents], [0, 0], self.agent_said(0) + self.agent_said(1))


# Writes what passes an interface to a file, until it is killed.
SNIFF = """
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
s.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE: nothing is dropped while this process does not run
s.bind(("eth0", 0))
with open("capture", "wb", buffering=0) as file:
    open("sniffs", "w").close()
    while True:
        file.write(s.recv(65536))
"""


class Tls(Secret):
    """The same with --tls."""

    on, start_nodes, agent_said, start_idle = Store.on, Store.start_nodes, Store.agent_said, Store.start_idle
    more = ("--tls",)

    def setUp(self):
        Store.setUp(self)
        if "built without OpenSSL" in self.run_dlaunch("--tls", f"--token-file={self.token}", "true").stderr:
            self.skipTest("there is no OpenSSL")

    def captured(self):
        """What libdlaunch's ranks and their agents send, as seen on the network of host 0."""
        sniffer = subprocess.Popen([*self.hosts.on(0), sys.executable, "-c", SNIFF], cwd=self.dir)
        self.addCleanup(self.finish, sniffer)
        wait_until(lambda: os.path.exists(self.path("sniffs")), "it sniffs")
        agents, _ = self.start_nodes(ALL_REDUCE, "1000")
        self.assertEqual([agent.wait(timeout=PATIENCE) for agent in agents], [0, 0], self.agent_said(0) + self.agent_said(1))
        # What passes last is the end of the capture.
        end = b"the end of the capture"
        send = f"import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto({end!r}, ('{self.hosts.addresses[0]}', 9))"
        self.assertEqual(self.on(1, sys.executable, "-c", send).returncode, 0)

        def capture():
            with open(self.path("capture"), "rb") as file:
                return file.read()
        wait_until(lambda: end in capture(), "all was captured")
        sniffer.kill()
        sniffer.wait()
        os.remove(self.path("sniffs"))
        return capture()

    @unittest.skipUnless(os.path.exists(ALL_REDUCE), "there is no gloo")
    def test_nothing_of_agents_and_store_is_sent_in_the_clear(self):
        words = (b"LAUNCH", b"init/", b"all_reduce_worker")
        captured = self.captured()
        self.assertEqual([word for word in words if word in captured], [])
        self.more = ()
        captured = self.captured()
        self.assertIn(words[0], captured)
        self.assertIn(b"STOREK", captured)

    def test_in_the_clear_only_a_nodes_own_programs_are_answered(self):
        endpoint = self.start_idle()
        plain = [sys.executable, "-c", PLAIN, *endpoint.split(":")]
        self.assertEqual([self.on(i, *plain).stdout for i in range(3)], ["answered\n", "refused\n", "refused\n"])
        asks = [DLAUNCH, "store", "add", "n", "1", f"--endpoint={endpoint}", f"--token-file={self.token}"]
        self.assertEqual(self.on(2, *asks, "--tls").returncode, 0)
        wait_until(lambda: "does not use TLS" in self.agent_said(0), "node 0 reports why it has refused")

    def test_it_needs_a_secret(self):
        done = self.run_dlaunch("--tls", "true")
        self.assertEqual((done.returncode, done.stderr), (2, "dlaunch: --tls needs a secret: its keys are derived from it; give --token-file\n"))

    def test_a_dlaunch_without_its_library_folder_names_the_missing_program(self):
        alone = self.path("dlaunch")
        shutil.copy(DLAUNCH, alone)
        done = subprocess.run([alone, "--tls", f"--token-file={self.token}", "true"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^dlaunch: --tls is not available: cannot run .*/lib/dlaunch/dlaunch: No such file or directory; ")


class StoreCommand(Secret):
    def test_a_store_with_a_secret(self):
        token = self.write("token", TOKEN)
        server = subprocess.Popen([DLAUNCH, "store", "--port=0", f"--token-file={token}"], env=environment(), text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(server.stdout.close)
        self.addCleanup(self.finish, server)
        port = int(server.stdout.readline().rpartition(":")[2])
        asks = ("store", "add", "n", "1", f"--endpoint=127.0.0.1:{port}")
        self.assertEqual(self.run_dlaunch(*asks).stdout, "1\n")  # from this machine
        self.assertEqual(self.run_dlaunch(*asks, f"--token-file={token}").stdout, "2\n")
        self.assertIn("it has another secret", self.run_dlaunch(*asks, DLAUNCH_TOKEN="other").stderr)
        self.assertEqual(self.ask(port, "/status"), 401)
        self.assertEqual(self.ask(port, "/status", Authorization=f"Bearer {TOKEN}"), 200)
        self.assertEqual(self.ask(port, "/healthz"), 200)


if __name__ == "__main__":
    main()

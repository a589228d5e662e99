#!/usr/bin/env python3
"""What the job's secret protects, on one machine: HTTP, environments, files.

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

from common import DLAUNCH, PATIENCE, environment, free_port, helpers_of, wait_until

TOKEN = f"s3cret-{os.getpid()}"


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
        where = f"dlaunch: no job's status at 127.0.0.1:{port}: the job has"
        self.assertEqual(self.run_dlaunch("status", endpoint).stderr, f"{where} a secret; give the job's --token-file\n")
        self.assertEqual(self.run_dlaunch("status", endpoint, f"--token-file={wrong}").stderr,
                         f"{where} another secret; give the job's --token-file\n")
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
        self.assertEqual(done.stderr, f"dlaunch: cannot take the secret from {token}: other users can read or change it "
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

    def test_without_a_secret_an_open_port_is_said(self):
        done = self.run_dlaunch("--nnodes=1", "--master-addr=0.0.0.0", f"--master-port={free_port()}", "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("can read and change this job's store; --token-file=FILE on every node prevents it\n", done.stderr)
        done = self.run_dlaunch("--nnodes=1", "--master-addr=0.0.0.0", f"--master-port={free_port()}", "true", DLAUNCH_TOKEN=TOKEN)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        done = self.run_dlaunch("true")
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=1)
    sys.exit(not program.result.wasSuccessful())

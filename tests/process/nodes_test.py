#!/usr/bin/env python3
"""Jobs of several nodes, on one host and on two, and each node's health port.

    DLAUNCH_BIN_DIR=build/bin nodes_test.py [Class.test ...]

Every wait is for an event and has a deadline.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

from common import BIN, DLAUNCH, PATIENCE, alive, environment, free_port, main, remedy, summary, wait_until
from hosts import Hosts
from launch_case import FAMILY, Launch


class Health(Launch):
    PORT = "TORCHELASTIC_HEALTH_CHECK_PORT"

    def answer(self, port, path):
        """Status and text; None: no process listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()
        except urllib.error.URLError:
            return None

    def test_every_node_answers_also_one_that_serves_no_store(self):
        master, *ports = (free_port() for _ in range(3))
        jobs = [self.start("--nnodes=2", f"--node-rank={i}", f"--master-port={master}", "sleep", "1000", **{self.PORT: str(port)})
                for i, port in reversed(list(enumerate(ports)))]
        for port in ports:
            wait_until(lambda: self.answer(port, "/healthz") == (200, b"ok\n"), f"the agent at port {port} answers")
            self.assertEqual(self.answer(port, "/status")[0], 404)
        for job in jobs:
            job.terminate()
            job.communicate(timeout=PATIENCE)
        self.assertEqual([self.answer(port, "/healthz") for port in ports], [None, None])

    def test_a_port_that_cannot_be_had_is_an_error_before_anything_is_started(self):
        for text in ("http", "0", "65536", "-1"):
            done = self.run_dlaunch("echo", "started", **{self.PORT: text})
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertRegex(done.stderr, f"^dlaunch: {self.PORT}.*{text}")
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            done = self.run_dlaunch("echo", "started", **{self.PORT: str(port)})
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertRegex(summary(done.stderr), rf":{port}: .*in use.*choose a free port with {self.PORT}")

    def test_without_a_port_there_is_none(self):
        self.assertEqual(self.run_dlaunch("true", **{self.PORT: ""}).returncode, 0)


class Nodes(Launch):
    """Several nodes of a job on this machine."""

    def start_nodes(self, options_of_each, *command):
        """By node rank: the agents."""
        port = free_port()
        return [self.start(f"--nnodes={len(options_of_each)}", f"--node-rank={i}", "--master-addr=127.0.0.1", f"--master-port={port}",
                           *options, *command) for i, options in enumerate(options_of_each)]

    def test_each_role_counts_its_own_workers(self):
        jobs = self.start_nodes([["--role=reader"], ["--role=trainer", "--nproc-per-node=2"], ["--role=reader", "--nproc-per-node=2"]],
                                "sh", "-c", "echo $RANK $WORLD_SIZE $ROLE_NAME $ROLE_RANK $ROLE_WORLD_SIZE")
        out = ""
        for job in jobs:
            said, err = job.communicate(timeout=PATIENCE)
            self.assertEqual(job.returncode, 0, err)
            out += said
        self.assertEqual(sorted(out.splitlines()), ["0 5 reader 0 3", "1 5 trainer 0 2", "2 5 trainer 1 2", "3 5 reader 1 3", "4 5 reader 2 3"])


    def test_preemption_notice_reaches_all_nodes_that_requested_it(self):
        """Two nodes save together. A third requested no notice, and the signal would kill its worker."""
        worker = ("if [ $RANK = 2 ]; then echo $$ > pid.2; while [ ! -e saved.0 ] || [ ! -e saved.1 ]; do sleep 0.01; done; exit 0; fi; "
                  "trap 'echo >> saved.$RANK; while [ ! -e saved.$((1 - RANK)) ]; do sleep 0.01; done; exit $CODE' USR1; echo $$ > pid.$RANK; while :; do sleep 0.01; done")
        notice = "--preempt-signal=USR1@50"
        for code, ends in ((0, 0), (9, 143)):
            jobs = self.start_nodes([[notice, "--max-restarts=2"], [notice, "--max-restarts=2"], ["--max-restarts=2"]],
                                    "sh", "-c", f"CODE={code}; {worker}")
            self.pids(3)
            jobs[1].send_signal(signal.SIGTERM)
            errors = [job.communicate(timeout=PATIENCE)[1] for job in jobs]
            self.assertEqual([job.returncode for job in jobs], [ends] * 3, errors)
            self.assertRegex(errors[0], r"dlaunch: node 1 \(host .*\) was told to end: giving the workers notice by SIGUSR1\n")
            self.assertNotIn("notice", errors[2])
            for rank in range(3):
                os.unlink(os.path.join(self.dir, f"pid.{rank}"))
            for rank in range(2):
                with open(os.path.join(self.dir, f"saved.{rank}"), encoding="utf-8") as saved:
                    self.assertEqual(saved.read(), "\n")
                os.unlink(os.path.join(self.dir, f"saved.{rank}"))


class TwoHosts(Launch):
    def setUp(self):
        super().setUp()
        self.tmp = os.path.join(self.dir, "tmp")  # a leader's mark there is named after job and endpoint: as other tests' leaders'
        os.mkdir(self.tmp)
        self.hosts = Hosts(self, 2)

    def on(self, i, *arguments):
        return self.start("--nnodes=2", f"--node-rank={i}", f"--master-addr={self.hosts.addresses[0]}", "--master-port=29500",
                          *arguments, prefix=self.hosts.on(i), TMPDIR=self.tmp)

    def test_an_unresolvable_name_is_not_reported_as_a_port_problem(self):
        # Only ssh's configuration may know it; there are no name servers here.
        look_up = self.hosts.on(0) + [sys.executable, "-c", "import socket, sys\ntry: socket.getaddrinfo('known-to-ssh-alone', 1)\n"
                                      "except socket.gaierror as error: sys.exit(error.errno != socket.EAI_AGAIN)"]
        if subprocess.run(look_up, check=False).returncode != 0:
            self.skipTest("a name that is unknown is known to be so")
        done = subprocess.run(self.hosts.on(0) + [DLAUNCH, "--nnodes=2", "--node-rank=0", "--master-addr=known-to-ssh-alone", "true"],
                              env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("this machine cannot look that name up; give its address with --master-addr", done.stderr)

    def test_one_job_over_two_hosts(self):
        second = self.on(1, "--nproc-per-node=1", os.path.join(BIN, "rank_sum"))
        first = self.on(0, "--nproc-per-node=2", os.path.join(BIN, "rank_sum"))
        out, err = first.communicate(timeout=PATIENCE)
        more, more_err = second.communicate(timeout=PATIENCE)
        self.assertEqual((first.returncode, second.returncode), (0, 0), err + more_err)
        self.assertEqual(sorted(re.findall(r"rank (\d) of 3", out + more)), ["0", "1", "2"])
        self.assertEqual(len(re.findall(r"sum of ranks = 3", out + more)), 3)

    def test_a_failure_on_one_host_restarts_both_and_codes_agree(self):
        script = ("echo > seen.$RANK.$TORCHELASTIC_RESTART_COUNT; [ $RANK = 0 ] && exec sleep 1000; "
                  "while [ ! -e seen.0.$TORCHELASTIC_RESTART_COUNT ]; do sleep 0.005; done; exit 6")
        jobs = [self.on(i, "--max-restarts=1", "sh", "-c", script) for i in (0, 1)]
        errors = [job.communicate(timeout=PATIENCE)[1] for job in jobs]
        self.assertEqual([job.returncode for job in jobs], [6, 6], errors)
        for error in errors:
            self.assertRegex(summary(error), r"failed: rank 1 \(local rank 0, node 1, .*exited with code 6; 1 of 1 restarts were used")
        self.assertTrue(os.path.exists(os.path.join(self.dir, "seen.0.1")))

    def test_kill_9_of_one_agent_ends_the_other_and_leaves_nothing(self):
        jobs = [self.on(i, "--stop-timeout=0.5", "sh", "-c", FAMILY) for i in (0, 1)]
        pids = self.pids(6)
        jobs[1].kill()
        _, err = jobs[0].communicate(timeout=PATIENCE)
        self.assertEqual(jobs[0].returncode, 1)
        self.assertIn("node 1 (host", summary(err))
        self.assertRegex(remedy(err), "^look at the terminal of dlaunch on [^ ]+, and at dmesg and journalctl there$")
        wait_until(lambda: not any(alive(pid) for pid in pids), f"none of {pids} is alive")


if __name__ == "__main__":
    main()

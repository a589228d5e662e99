#!/usr/bin/env python3
"""dlaunch as process 1 of a container: namespaces of processes and of the network, where the kernel gives process 1 the orphans
of all others, and no default action for any signal.

    DLAUNCH_BIN_DIR=build/bin container_test.py [Class.test ...]

Every wait is for an event and has a deadline.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import unittest
import uuid

from common import DLAUNCH, PATIENCE, children_of, command_line, environment, main, marked, state_of, wait_until

RUNTIME = ("unshare", "--pid", "--net", "--fork", "--kill-child", "--mount-proc", "sh", "-ec", 'ip link set lo up; exec "$@"', "runtime")


class Container(unittest.TestCase):
    def setUp(self):
        if subprocess.run([*RUNTIME, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no namespaces here")
        self.dir = tempfile.mkdtemp(prefix="dlaunch_container_test.")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.mark = uuid.uuid4().hex

    def start(self, *arguments):
        """dlaunch as process 1 with two workers, which run a shell script."""
        *options, script = arguments
        command = [*RUNTIME, DLAUNCH, "--nproc-per-node=2", *options, "sh", "-c", script]
        job = subprocess.Popen(command, cwd=self.dir, env={**environment(), "CONTAINER_MARK": self.mark}, text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.finish, job)
        return job

    @staticmethod
    def finish(job):
        job.kill()
        job.communicate()

    @staticmethod
    def process_1(job):
        wait_until(lambda: children_of(job.pid), "process 1 is there")
        return children_of(job.pid)[0]

    def came(self, *names):
        wait_until(lambda: all(os.path.exists(os.path.join(self.dir, name)) for name in names), f"{names} are there")

    def path(self, name):
        return os.path.join(self.dir, name)

    def end(self, job, code):
        _, err = job.communicate(timeout=PATIENCE)
        if code is None:  # how its parent sees the end of process 1 by SIGKILL depends on the version of unshare
            self.assertNotEqual(job.returncode, 0)
        else:
            self.assertEqual(job.returncode, code, err)
        wait_until(lambda: not marked(self.mark.encode()), "nothing remains")
        return err

    def family_of(self, pid):
        """All its descendants."""
        try:
            return [found for child in children_of(pid) for found in (child, *self.family_of(child))]
        except (FileNotFoundError, ProcessLookupError):
            return []

    def test_orphans_of_workers_are_reaped(self):
        """Those in sessions of their own, too, and those that end while the workers run."""
        job = self.start("(setsid sh -c ': > orphan.$RANK' &); (: &); : > up.$RANK; until [ -e done ]; do sleep 0.01; done")
        agent = self.process_1(job)
        self.came("up.0", "up.1", "orphan.0", "orphan.1")
        wait_until(lambda: not [pid for pid in self.family_of(agent) if state_of(pid) == "Z"], "no zombie is left")
        with open(self.path("done"), "w", encoding="utf-8"):
            pass
        self.end(job, 0)

    def test_sigterm_gives_the_workers_their_time(self):
        job = self.start("--stop-timeout=1000", "trap 'until [ -e saved ]; do sleep 0.01; done; : > end.$RANK; exit 0' TERM; : > up.$RANK; "
                         "while :; do sleep 0.01; done")
        self.came("up.0", "up.1")
        os.kill(self.process_1(job), signal.SIGTERM)
        with open(self.path("saved"), "w", encoding="utf-8"):
            pass
        self.end(job, 143)
        self.came("end.0", "end.1")

    STUBBORN = "trap '' TERM INT HUP; : > up.$RANK; while :; do sleep 1000; done"

    def test_a_worker_that_ignores_sigterm_is_killed_in_time(self):
        job = self.start("--stop-timeout=0.1", self.STUBBORN)
        self.came("up.0", "up.1")
        os.kill(self.process_1(job), signal.SIGTERM)
        self.assertRegex(self.end(job, 143), r"sending SIGKILL")

    def test_a_second_sigterm_leaves_the_workers_their_time_and_sigint_does_not(self):
        job = self.start("--stop-timeout=1000", "trap ': > term.$RANK' TERM; trap '' INT; : > up.$RANK; until [ -e go ]; do sleep 0.01; done; "
                         ": > alive.$RANK; while :; do sleep 0.01; done")
        self.came("up.0", "up.1")
        agent = self.process_1(job)
        os.kill(agent, signal.SIGTERM)
        self.came("term.0", "term.1")
        os.kill(agent, signal.SIGTERM)
        with open(self.path("go"), "w", encoding="utf-8"):
            pass
        self.came("alive.0", "alive.1")
        os.kill(agent, signal.SIGINT)
        self.end(job, 143)

    def test_a_signal_that_comes_before_dlaunch_handles_it_is_not_lost(self):
        """Kubernetes would wait for the whole grace time."""
        for signo in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.mkfifo(self.path("config"))  # opening it waits for a writer
            job = self.start("--config=config", "true")
            agent = self.process_1(job)
            def has_come_to_the_file(pid=agent):
                with open(f"/proc/{pid}/comm", encoding="utf-8") as comm, open(f"/proc/{pid}/wchan", encoding="utf-8") as wchan:
                    return comm.read() == "dlaunch\n" and state_of(pid) == "S" and "partner" in wchan.read()
            wait_until(has_come_to_the_file, "dlaunch reads the file")
            os.kill(agent, signo)
            self.end(job, 128 + signo)
            os.unlink(self.path("config"))

    def test_sigkill_leaves_nothing(self):
        job = self.start("(setsid sh -c \"trap '' TERM; : > orphan.$RANK; while :; do sleep 1000; done\" &); " + self.STUBBORN)
        self.came("up.0", "up.1", "orphan.0", "orphan.1")
        os.kill(self.process_1(job), signal.SIGKILL)
        self.end(job, None)

    def test_workers_restart_in_place(self):
        """Process 1 stays, and nothing of the round before does."""
        job = self.start("--max-restarts=2", "--stop-timeout=0.1", "(setsid sh -c \"trap '' TERM; echo $$ > daemon.$TORCHELASTIC_RESTART_COUNT.$RANK; "
                         "while :; do sleep 1000; done\" &); until [ -e daemon.$TORCHELASTIC_RESTART_COUNT.0 ] && [ -e daemon.$TORCHELASTIC_RESTART_COUNT.1 ]; "
                         "do sleep 0.01; done; [ $TORCHELASTIC_RESTART_COUNT = 2 ] || exit $((RANK * 3)); : > up.$RANK; until [ -e done ]; do sleep 0.01; done")
        agent = self.process_1(job)
        self.came("up.0", "up.1")
        self.assertEqual(self.process_1(job), agent)
        def daemons():
            """Those of all rounds; a copy of one that is about to become its `sleep` counts too, for a moment."""
            words = [" ".join(command_line(pid)) for pid in self.family_of(agent)]
            return [text for text in words if text.startswith("sh -c trap") and "daemon." in text]
        wait_until(lambda: len(daemons()) == 2, "only those of the third round are there")
        with open(self.path("done"), "w", encoding="utf-8"):
            pass
        self.end(job, 0)


if __name__ == "__main__":
    main()

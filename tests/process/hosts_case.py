"""What tests of --hosts begin with: a job on several hosts, and a search for what remains of it."""

import os
import re
import select
import shutil
import subprocess
import tempfile
import unittest

from common import DLAUNCH, PATIENCE, alive, environment, summary, wait_until

# A worker that writes its pid and those of a child and of a daemon in a session of its own, and then stays.
FAMILY = """
setsid sh -c 'echo $$ > pid.'$RANK'.daemon; trap "" TERM HUP INT; while :; do sleep 1000; done' &
sleep 1000 & echo $! > pid.$RANK.child
echo $$ > pid.$RANK.tmp && mv pid.$RANK.tmp pid.$RANK
wait
"""

# What a worker was given, to the byte.
DUMP = """
import json, os, sys
with open("dump." + os.environ["RANK"], "w") as file:
    json.dump([sys.argv[1:], dict(os.environ), os.getcwd(), os.readlink("/proc/self/fd/0")], file)
"""


class Hosts(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="dlaunch_hosts_test.")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, text, mode=0o644):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.path(name), mode)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def start(self, *arguments, prefix=(), stdout=subprocess.PIPE, dlaunch=DLAUNCH, **variables):
        process = subprocess.Popen([*prefix, dlaunch, *arguments], cwd=self.dir, env={**environment(), **variables}, text=True,
                                   stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE)
        self.addCleanup(self.finish, process)
        return process

    @staticmethod
    def finish(process):
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()

    def run_job(self, *arguments, **variables):
        job = self.start(*arguments, **variables)
        out, err = job.communicate(timeout=PATIENCE)
        return subprocess.CompletedProcess(arguments, job.returncode, out, err)

    def pids(self, count):
        """The numbers that workers wrote into files named pid.*, once there are `count` of them."""
        def numbers():
            found = []
            for name in os.listdir(self.dir):
                text = "" if name.endswith(".tmp") or not name.startswith("pid.") else self.read(name).strip()
                if text:
                    found.append(int(text))
            return found
        wait_until(lambda: len(numbers()) >= count, f"{count} processes have written their pids")
        return numbers()

    def wait_for_lines(self, job, lines):
        """Reads the job's stderr until they appear; drops everything up to then."""
        text = ""
        def have_come():
            nonlocal text
            if select.select([job.stderr], [], [], 0)[0]:
                piece = os.read(job.stderr.fileno(), 1000).decode()
                self.assertTrue(piece, f"the job has ended without {lines}: {text}")
                text += piece
            return set(lines) <= set(text.split("\n")[:-1])
        wait_until(have_come, f"the job writes {lines}")

    def processes_of_the_job(self):
        """Every process that was started in the test's directory, and is still there: dlaunch, its keepers, ssh, workers."""
        found = []
        for name in os.listdir("/proc"):
            try:
                if name.isdigit() and os.readlink(f"/proc/{name}/cwd") == self.dir and alive(name):
                    found.append(int(name))
            except OSError:
                pass
        return found

    def nothing_remains(self):
        wait_until(lambda: not self.processes_of_the_job(), "nothing is left of the job")

    def one_failure(self, done, pattern, code=1):
        """The last line matches, and no other line reports a failure or a stop."""
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertRegex(summary(done.stderr), pattern)
        self.assertEqual(len(re.findall("failed: |stopped: ", done.stderr)), 1, done.stderr)

"""What tests of single jobs begin with: a directory, and dlaunch started in it."""

import os
import shutil
import subprocess
import tempfile
import unittest

from common import DLAUNCH, PATIENCE, environment, wait_until


class Launch(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="dlaunch_launch_test.")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def run_dlaunch(self, *arguments, **variables):
        return subprocess.run([DLAUNCH, *arguments], cwd=self.dir, env={**environment(), **variables}, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False)

    def start(self, *arguments, prefix=(), **variables):
        process = subprocess.Popen([*prefix, DLAUNCH, *arguments], cwd=self.dir, env={**environment(), **variables}, text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.finish, process)
        return process

    @staticmethod
    def finish(process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def pids(self, count):
        """The numbers that workers wrote into files named pid.*, once there are `count` of them."""
        def numbers():
            found = []
            for name in os.listdir(self.dir):
                if name.startswith("pid.") and not name.endswith(".tmp"):
                    with open(os.path.join(self.dir, name), encoding="utf-8") as file:
                        text = file.read().strip()
                    if text:
                        found.append(int(text))
            return found
        wait_until(lambda: len(numbers()) >= count, f"{count} processes have written their pids")
        return numbers()


# A worker that writes its pid and those of a child and of a daemon in a session of its own, and then stays.
FAMILY = """
echo $$ > pid.$RANK.tmp && mv pid.$RANK.tmp pid.$RANK
sleep 1000 & echo $! > pid.$RANK.child
setsid sh -c 'echo $$ > pid.'$RANK'.daemon; trap "" TERM HUP; while :; do sleep 1000; done' &
wait
"""

"""What tests of the workers' output begin with: a directory for logs, and a job that writes into it."""

import os
import shutil
import subprocess
import tempfile
import unittest

from common import DLAUNCH, PATIENCE

SPEAK = "echo out $RANK; echo err $RANK >&2"


class Output(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="dlaunch_output_test.")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.logs = os.path.join(self.dir, "logs")

    def run_job(self, *arguments, preexec_fn=None, **variables):
        return subprocess.run([DLAUNCH, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, preexec_fn=preexec_fn,
                              env={**os.environ, "TMPDIR": self.dir, **variables}, timeout=PATIENCE, check=False)

    def log(self, rank, name="stdout.log", attempt=0):
        with open(os.path.join(self.logs, "latest", f"attempt_{attempt}", str(rank), name), encoding="utf-8") as file:
            return file.read()

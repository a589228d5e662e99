#!/usr/bin/env python3
"""cmake/WriteCommit.cmake, which writes the commit that `dlaunch --version` prints.

    DLAUNCH_BIN_DIR=build/bin write_commit_test.py [Class.test ...]
"""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

from common import DLAUNCH, environment, main

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SCRIPT = os.path.join(ROOT, "cmake", "WriteCommit.cmake")


@unittest.skipUnless(shutil.which("git"), "needs git")
class WriteCommit(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="dlaunch_write_commit_test.")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.checkout = os.path.join(self.dir, "checkout")
        self.git("init", "--quiet", self.checkout, cwd=self.dir)
        self.commit("first")

    def git(self, *words, cwd=None):
        """Without the user's configuration."""
        variables = {**environment(), "HOME": self.dir, "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b",
                     "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
        return subprocess.run(["git", *words], cwd=cwd or self.checkout, env=variables, check=True, capture_output=True, text=True).stdout.strip()

    def change(self, text):
        with open(os.path.join(self.checkout, "file"), "w", encoding="utf-8") as file:
            file.write(text)

    def commit(self, text):
        self.change(text)
        self.git("add", "file")
        self.git("commit", "--quiet", "-m", text)

    def written(self, source=None):
        """The commit in the source that the script writes."""
        self.output = os.path.join(self.dir, "build_commit.cpp")
        subprocess.run(["cmake", f"-DSOURCE={source or self.checkout}", f"-DOUTPUT={self.output}", "-P", SCRIPT], env=environment(),
                       check=True, capture_output=True)
        with open(self.output, encoding="utf-8") as file:
            return re.search(r'build_commit = "(.*)";', file.read()).group(1)

    def head(self, cwd=None):
        return self.git("rev-parse", "HEAD", cwd=cwd)[:12]

    def test_the_commit_that_is_checked_out_is_written(self):
        self.assertEqual(self.written(), self.head())
        self.commit("second")
        self.assertEqual(self.written(), self.head())

    def test_an_unchanged_commit_is_not_written_again(self):
        self.written()
        os.utime(self.output, (1, 1))
        self.written()
        self.assertEqual(os.stat(self.output).st_mtime, 1)
        self.commit("second")
        self.written()
        self.assertNotEqual(os.stat(self.output).st_mtime, 1)

    def test_changed_files_are_dirty_but_new_ones_are_not(self):
        with open(os.path.join(self.checkout, "new"), "w", encoding="utf-8"):
            pass
        self.assertEqual(self.written(), self.head())
        self.change("changed")
        self.assertEqual(self.written(), self.head() + "-dirty")
        self.git("add", "file")
        self.assertEqual(self.written(), self.head() + "-dirty")

    def test_shallow_clones_and_worktrees_have_a_commit(self):
        self.commit("second")
        self.git("clone", "--quiet", "--depth=1", f"file://{self.checkout}", f"{self.dir}/shallow", cwd=self.dir)
        self.assertEqual(self.git("rev-list", "--count", "HEAD", cwd=f"{self.dir}/shallow"), "1")
        self.assertEqual(self.written(f"{self.dir}/shallow"), self.head())
        self.git("worktree", "add", "--quiet", "--detach", f"{self.dir}/worktree", "HEAD~1")
        self.assertEqual(self.written(f"{self.dir}/worktree"), self.head(f"{self.dir}/worktree"))

    def test_an_archive_has_none_even_inside_another_checkout(self):
        unpacked = os.path.join(self.checkout, "vendor", "dlaunch")
        os.makedirs(unpacked)
        self.assertEqual(self.written(unpacked), "")

    def test_a_checkout_without_commits_has_none(self):
        self.git("init", "--quiet", f"{self.dir}/empty", cwd=self.dir)
        self.assertEqual(self.written(f"{self.dir}/empty"), "")

    def test_dlaunch_prints_it(self):
        done = subprocess.run([DLAUNCH, "--version"], env=environment(), check=True, capture_output=True, text=True)
        commit = r" \(commit [0-9a-f]{12,}(-dirty)?\)" if os.path.exists(os.path.join(ROOT, ".git")) else ""
        self.assertRegex(done.stdout, rf"^dlaunch \d+\.\d+\.\d+{commit}\n$")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""The Debian packages, installed by dpkg into a root of their own and removed again.

The test deb.build has built them (scripts/deb) into build/deb.
"""

import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../process"))
from common import BIN, PATIENCE, environment, main  # noqa: E402

SOURCE = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
PACKAGES = os.path.join(os.path.dirname(BIN), "deb")
NAMES = ("dlaunch", "libdlaunch0.2", "libdlaunch-dev", "python3-dlaunch")


def run(*command, **more):
    """The stdout of a command, which must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, env={**environment(), **more})
    if done.returncode:
        raise AssertionError(f"{command} exited with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def files_of(folder):
    return {os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names}


class Deb(unittest.TestCase):
    def setUp(self):
        if not shutil.which("dpkg"):
            self.skipTest("this is no Debian: dpkg is not there")
        self.packages = {name: glob.glob(os.path.join(PACKAGES, f"{name}_*.deb"))[0] for name in NAMES}

    def root(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name in ("info", "updates", "triggers"):
            os.makedirs(os.path.join(folder.name, "var/lib/dpkg", name))
        for name in ("status", "available"):
            with open(os.path.join(folder.name, "var/lib/dpkg", name), "w", encoding="utf-8"):
                pass
        return folder.name

    def dpkg(self, root, *arguments):
        # The other packages that they need are those of the machine. A double of ldconfig stands in for the machine's, which would
        # change the machine's cache.
        double = os.path.join(root, "double")
        os.makedirs(double, exist_ok=True)
        with open(os.open(os.path.join(double, "ldconfig"), os.O_CREAT | os.O_WRONLY, 0o755), "w", encoding="utf-8") as script:
            script.write("#!/bin/sh\n")
        return run("dpkg", "--force-not-root,depends,script-chrootless", f"--root={root}", f"--log={root}/log", *arguments,
                   PATH=f"{double}:/usr/sbin:/usr/bin:/sbin:/bin")

    def test_lintian_finds_no_error(self):
        if not shutil.which("lintian"):
            self.skipTest("lintian is not installed (Debian: lintian)")
        run("lintian", "--fail-on=error", "--allow-root", *self.packages.values())

    def test_they_need_what_they_are_linked_with(self):
        self.assertRegex(run("dpkg-deb", "-f", self.packages["libdlaunch0.2"], "Depends"), r"libc6 \(>= 2\.[0-9]+\).*libstdc\+\+6")
        self.assertEqual(run("dpkg-deb", "-f", self.packages["dlaunch"], "Depends").strip(), "", "it is linked statically")
        self.assertIn("libdlaunch0.2 (= ", run("dpkg-deb", "-f", self.packages["libdlaunch-dev"], "Depends"))

    def test_an_installed_job_runs_and_a_removed_one_leaves_nothing(self):
        root = self.root()
        self.dpkg(root, "--install", *self.packages.values())
        program, libraries = os.path.join(root, "usr/bin/dlaunch"), os.path.join(root, "usr/lib")
        example = os.path.join(root, "rank_sum_c")
        run("cc", os.path.join(SOURCE, "examples/rank_sum_c.c"), "-o", example, f"-I{root}/usr/include", f"-L{libraries}", "-ldlaunch")
        out = run(program, "--nproc-per-node=2", example, LD_LIBRARY_PATH=libraries)
        self.assertEqual(sorted(out.splitlines()), ["rank 0 of 2: sum of ranks = 1", "rank 1 of 2: sum of ranks = 1"])
        version = run("/usr/bin/python3", "-c", "import dlaunch.library; print(dlaunch.__version__)",
                      PYTHONPATH=f"{libraries}/python3/dist-packages", LD_LIBRARY_PATH=libraries, PYTHONDONTWRITEBYTECODE="1")
        self.assertIn(version.strip(), run(program, "--version"))
        self.assertTrue(os.path.exists(f"{root}/usr/share/man/man1/dlaunch.1.gz"))
        self.dpkg(root, "--purge", *NAMES)
        self.assertEqual(files_of(os.path.join(root, "usr")), set())


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""How a statically linked dlaunch finds what a host's name stands for.

    DLAUNCH_BIN_DIR=build/bin names_test.py [Class.test ...]

The machine's files are replaced in a mount namespace. What getent answers that is asked in its place is made up; that the
real one understands the question is tested too.
"""

import os
import shutil
import subprocess
import tempfile
import unittest

from common import DLAUNCH, PATIENCE, environment, free_port, main

GETENT = """#!/bin/sh
echo "$*" >> "$(dirname "$0")/asked"
case "$*" in
  *machine.example) echo "127.0.0.1 STREAM machine.example"; echo "127.0.0.1 DGRAM"; echo "127.0.0.1 RAW";;
  *) exit 2;;
esac
"""


class Names(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = folder.name
        self.write("hosts", "127.0.0.1 localhost filed.example\n")
        self.write("bin/getent", GETENT)
        os.chmod(f"{self.dir}/bin/getent", 0o755)

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, name):
        try:
            with open(os.path.join(self.dir, name), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def run_in_place(self, services, *command, path=None):
        """The command, with `services` for hosts in nsswitch.conf, and `path` as PATH."""
        self.write("nsswitch.conf", f"hosts: {services}\n")
        inside = (f"mount --bind {self.dir}/nsswitch.conf /etc/nsswitch.conf && mount --bind {self.dir}/hosts /etc/hosts || exit 77; "
                  f'PATH="{path or os.environ["PATH"]}" exec "$@"')
        done = subprocess.run(["unshare", "--mount", "sh", "-c", inside, "sh", *command], env=environment(), capture_output=True,
                              text=True, timeout=PATIENCE, check=False)
        if done.returncode == 77 or done.stderr.startswith("unshare:"):
            self.skipTest(f"no mount namespace can be made here: {done.stderr.strip()}")
        return done

    def get_from(self, services, host, path=None):
        """Gets a key from the store of a job on this machine, by the host's name."""
        worker = f'exec "{DLAUNCH}" store num-keys --endpoint={host}:$MASTER_PORT'
        return self.run_in_place(services, DLAUNCH, "--nproc-per-node=1", "--rdzv-backend=c10d", f"--rdzv-endpoint={host}:{free_port()}",
                                 "sh", "-c", worker, path=path)

    def test_names_of_other_services_come_from_getent(self):
        done = self.get_from("files mymachines dns", "machine.example", f"{self.dir}/bin:{os.environ['PATH']}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"\d+\n")
        self.assertIn("ahosts machine.example\n", self.read("bin/asked"))

    def test_a_name_unknown_to_getent_is_reported(self):
        done = self.get_from("files mymachines dns", "nobody.example", f"{self.dir}/bin:{os.environ['PATH']}")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stderr, "nobody.example")

    def test_the_real_getent_understands_its_arguments(self):
        done = self.get_from("files mymachines", "filed.example")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_without_getent_files_and_dns_are_left(self):
        os.makedirs(f"{self.dir}/few")
        os.symlink("/bin/sh", f"{self.dir}/few/sh")
        done = self.get_from("mymachines files", "filed.example", f"{self.dir}/few")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_files_and_dns_need_no_helper(self):
        done = self.get_from("files dns", "filed.example", f"{self.dir}/bin:{os.environ['PATH']}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.read("bin/asked"), "")

    def test_it_runs_without_any_shared_library(self):
        shutil.copy(DLAUNCH, f"{self.dir}/dlaunch")
        done = subprocess.run(["chroot", self.dir, "/dlaunch", "--version"], env=environment(), capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        if done.stderr.startswith("chroot: cannot change"):
            self.skipTest(f"no other root can be had here: {done.stderr.strip()}")
        self.assertRegex(done.stdout, r"^dlaunch \d", done.stderr)


if __name__ == "__main__":
    main()

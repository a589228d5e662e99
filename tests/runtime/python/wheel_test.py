#!/usr/bin/env python3
"""The wheel, installed by pip into empty environments of each Python that is in PATH (python3, python3.9, python3.10 ...).

The test wheel.build has built it (scripts/wheel) into build/dist.
"""

import glob
import os
import subprocess
import sys
import sysconfig
import tempfile
import unittest
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../process"))
from common import BIN, PATIENCE, TORCH_PYTHON, environment, main, torch_version  # noqa: E402

SOURCE = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
DIST = os.path.join(os.path.dirname(BIN), "dist")
RANKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_ranks.py")
USER = """
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C CXX)
find_package(dlaunch REQUIRED)
add_executable(rank_sum SOURCE/rank_sum.cpp)
target_link_libraries(rank_sum PRIVATE dlaunch::dlaunch)
"""


def pythons():
    """Each version once, the suite's own first."""
    found = {}
    for name in [sys.executable, *(f"python3.{minor}" for minor in range(9, 20))]:
        try:
            asked = subprocess.run([name, "-c", "import ensurepip, sys; print(sys.version_info[:2])"], capture_output=True, text=True,
                                   check=False)
        except FileNotFoundError:
            continue
        if asked.returncode == 0:
            found.setdefault(asked.stdout, name)
    return list(found.values())


def files_of(folder):
    """Without what Python compiles by itself."""
    return {os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names if not name.endswith(".pyc")}


class Environment:
    """A virtual environment."""

    def __init__(self, folder, python):
        self.folder = folder
        subprocess.run([python, "-m", "venv", folder], check=True, timeout=PATIENCE)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def run(self, *command, **more):
        """The stdout of a program of this environment, which must succeed; without the paths of the build tree."""
        own = {**environment(), "PATH": f"{self.path('bin')}:/usr/bin:/bin", **more}
        done = subprocess.run(command, capture_output=True, text=True, timeout=3 * PATIENCE, check=False, env=own)
        if done.returncode:
            raise AssertionError(f"{command} exited with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def install(self, wheel):
        self.run(self.path("bin/python3"), "-m", "pip", "install", "--quiet", "--no-index", wheel)
        return self


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        [cls.wheel] = glob.glob(os.path.join(DIST, "dlaunch-*.whl"))
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)


class Contents(WheelTest):
    def test_serves_every_python_and_names_the_oldest_c_library(self):
        self.assertRegex(os.path.basename(self.wheel), r"^dlaunch-[0-9.]+-py3-none-manylinux_2_[0-9]+_[a-z0-9_]+\.whl$")

    def test_its_entry_points_are_those_of_the_build_tree(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/entry_points.txt")]
            theirs = wheel.read(name).decode()
        with open(os.path.join(SOURCE, "runtime/python/entry_points.txt"), encoding="utf-8") as file:
            self.assertEqual(theirs.split(), file.read().split())

    def test_has_the_sources_of_pytorchs_extension_and_the_headers_they_need(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            names = wheel.namelist()
        for name in os.listdir(os.path.join(SOURCE, "runtime/python/dlaunch/torch/native")):
            self.assertIn(f"dlaunch/torch/native/{name}", names)
        self.assertEqual([name for name in names if name.endswith("/include/dlaunch/dlaunch.h")][1:], [], names)


class EachPython(WheelTest):
    def test_runs_jobs_with_each_python(self):
        script = os.path.join(self.folder.name, "script.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write("import os, dlaunch.library; print('rank', os.environ['RANK'], dlaunch.__version__)\n")
        version = os.path.basename(self.wheel).split("-")[1]
        for number, python in enumerate(pythons()):
            with self.subTest(python=python):
                here = Environment(os.path.join(self.folder.name, f"env{number}"), python).install(self.wheel)
                self.assertIn(version, here.run("dlaunch", "--version"))
                self.assertIn(version, here.run(here.path("bin/python3"), "-m", "dlaunch", "--version"))
                expected = [f"rank 0 {version}", f"rank 1 {version}"]
                job = ("--nproc-per-node=2", script)
                self.assertEqual(sorted(here.run("dlaunch", *job).splitlines()), expected)
                call = f"from dlaunch.run import main; main({[*job]!r})"
                self.assertEqual(sorted(here.run(here.path("bin/python3"), "-c", call).splitlines()), expected)


class Installed(WheelTest):
    """In one environment: pip takes 10 s to come into it."""
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.here = Environment(os.path.join(cls.folder.name, "env"), sys.executable).install(cls.wheel)

    def test_its_program_needs_no_library_and_no_python(self):
        with open(self.here.path("bin/dlaunch"), "rb") as file:
            self.assertEqual(file.read(4), b"\x7fELF")
        self.assertNotIn("NEEDED", self.here.run("readelf", "--dynamic", self.here.path("bin/dlaunch")))

    def test_a_job_with_tls_runs(self):
        token = os.path.join(self.folder.name, "token")
        with open(os.open(token, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
            file.write("a secret of this test, long enough\n")
        self.assertEqual(self.here.run("dlaunch", "--tls", f"--token-file={token}", "sh", "-c", "echo $RANK"), "0\n")

    def test_a_cpp_program_is_built_and_runs(self):
        user = os.path.join(self.folder.name, "user")
        os.mkdir(user)
        with open(os.path.join(user, "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write(USER.replace("SOURCE", os.path.join(SOURCE, "examples")))
        self.here.run("cmake", "-S", user, "-B", f"{user}/build", f"-DCMAKE_PREFIX_PATH={self.here.folder}")
        self.here.run("cmake", "--build", f"{user}/build")
        self.assertIn("sum of ranks = 3", self.here.run("dlaunch", "--nproc-per-node=3", f"{user}/build/rank_sum"))

    def test_a_c_program_is_built_by_its_pkg_config_file(self):
        flags = self.here.run("pkg-config", "--cflags", "--libs", "dlaunch", PKG_CONFIG_PATH=self.here.path("lib/pkgconfig")).split()
        program = os.path.join(self.folder.name, "rank_sum_c")
        self.here.run("cc", os.path.join(SOURCE, "examples/rank_sum_c.c"), "-o", program, *flags)
        self.assertIn("sum of ranks = 1", self.here.run("dlaunch", "--nproc-per-node=2", program, LD_LIBRARY_PATH=self.here.path("lib")))

    def test_its_manual_and_completions_are_installed(self):
        for file in ("share/man/man1/dlaunch.1", "share/man/man3/libdlaunch-init.3", "share/zsh/site-functions/_dlaunch",
                     "share/bash-completion/completions/dlaunch", "share/fish/vendor_completions.d/dlaunch.fish"):
            self.assertTrue(os.path.getsize(self.here.path(file)), file)


class PyTorch(WheelTest):
    def test_pytorch_finds_its_backend(self):
        found = torch_version()
        if found is None or found < (2, 9):
            self.skipTest(f"{TORCH_PYTHON} has no PyTorch of 2.9 or newer")
        here = Environment(os.path.join(self.folder.name, "env"), sys.executable).install(self.wheel)
        packages = sysconfig.get_path("purelib", vars={"base": here.folder})
        compared = here.run("dlaunch", "--nproc-per-node=2", "--no-python", TORCH_PYTHON, RANKS, "compare", PYTHONPATH=packages)
        self.assertEqual(compared.count("compared"), 2)


class Removal(WheelTest):
    def test_nothing_is_left_when_it_is_uninstalled(self):
        here = Environment(os.path.join(self.folder.name, "env"), sys.executable)
        before = files_of(here.folder)
        here.install(self.wheel)
        self.assertNotEqual(files_of(here.folder), before)
        here.run(here.path("bin/python3"), "-m", "pip", "uninstall", "--quiet", "--yes", "dlaunch")
        self.assertEqual(files_of(here.folder), before)


if __name__ == "__main__":
    main()

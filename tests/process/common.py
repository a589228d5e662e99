"""Shared by the tests that run dlaunch as a user does: its path, and helpers that inspect processes and wait for them."""

import fcntl
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

BIN = os.path.abspath(os.environ["DLAUNCH_BIN_DIR"])
DLAUNCH = os.path.join(BIN, "dlaunch")
PATIENCE = 100  # seconds until a wait for an event is a failure; CTest's limit is longer
# The Python that has PyTorch, if any has: the distribution's, or another one (scripts/test --pytorch).
TORCH_PYTHON = os.environ.get("DLAUNCH_TORCH_PYTHON") or "/usr/bin/python3"


def torchrun():
    """That of the same PyTorch; none is there where this is None."""
    return shutil.which("torchrun", path=os.path.dirname(TORCH_PYTHON) + ":" + os.environ["PATH"])


def torch_version():
    """(2, 15); None: that Python has no PyTorch."""
    asked = subprocess.run([TORCH_PYTHON, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True, check=False)
    return tuple(int(part) for part in asked.stdout.strip().split(".")[:2]) if asked.returncode == 0 else None


def offers_torch(test, oldest, what):
    """Whether its PyTorch is so new. The test is skipped if it is not and no PyTorch was named for it (scripts/test --pytorch)."""
    found = torch_version()
    if found is None or (found < oldest and "DLAUNCH_TORCH_PYTHON" not in os.environ):
        test.skipTest(f"PyTorch {found} of {TORCH_PYTHON} {what}")
    return found >= oldest


def is_sanitized():
    """Whether this dlaunch was built with a sanitizer: it needs more memory, and AddressSanitizer stops whom it looks at for leaks."""
    with open(DLAUNCH, "rb") as file:
        program = file.read()
    return b"__asan_init" in program or b"__tsan_init" in program


def environment():
    """As from a shell that no launcher has touched."""
    own = ("TORCHELASTIC_", "DLAUNCH_", "MASTER_", "PET_", "SLURM_", "OMPI_", "PMI", "GLOO_")
    return {key: value for key, value in os.environ.items()
            if not key.startswith(own) and key not in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "OMP_NUM_THREADS")}


def state_of(pid):
    """The process's state as the kernel names it: "R", "S", "T", "Z"; "X" if it does not exist."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def alive(pid):
    """Whether the process exists and is not a zombie."""
    return state_of(pid) not in "ZX"


def command_line(pid):
    """Its words; none if it has ended."""
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
            return file.read().split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return []


def most_memory_of(job):
    """Waits for the end of a Popen; returns the most memory that its process held, in KiB."""
    _, status, used = os.wait4(job.pid, 0)
    job.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_maxrss


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as children:
        return [int(child) for child in children.read().split()]


def helpers_of(job):
    """The pids of agent, guard and keeper of a dlaunch (a Popen or a pid) that has begun its workers."""
    agent = getattr(job, "pid", job)
    found = {"agent": agent}

    def look():
        try:
            for pid in [pid for child in children_of(agent) for pid in (child, *children_of(child))]:
                with open(f"/proc/{pid}/comm", encoding="utf-8") as comm:
                    name = comm.read().strip()
                if name in ("dl-guard", "dl-keeper"):
                    found[name.removeprefix("dl-")] = pid
        except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            pass
        return len(found) == 3
    wait_until(look, "guard and keeper are there")  # the guard comes when the workers have begun
    return found


def marked(mark):
    """Living processes with the mark (bytes) in their environment; a zombie has none any more."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if mark in file.read():
                    found.append(int(name))
        except OSError:
            pass
    return found


def summary(stderr):
    """The line that says how the job ended: dlaunch's last one, or the one before it if the last says what to try."""
    lines = stderr.splitlines()
    return lines[-2] if lines[-1].startswith("  try: ") else lines[-1]


def remedy(stderr):
    """What the last line says to try; empty if there is nothing of the kind."""
    last = (stderr.splitlines() or [""])[-1]
    return last.removeprefix("  try: ") if last.startswith("  try: ") else ""


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {PATIENCE} s: {what}")
        time.sleep(0.005)


PORTS = range(15000, 29000)  # below those that kernels give out, and without dlaunch's own: nothing else takes one of them


def free_port():
    """A port that nothing uses, and that no other test is given for a long time: all tests of this user take turns."""
    with open(os.path.join(tempfile.gettempdir(), f"dlaunch_test_port.{os.getuid()}"), "a+", encoding="utf-8") as last:
        fcntl.flock(last, fcntl.LOCK_EX)
        last.seek(0)
        port = int(last.read() or os.getpid() % len(PORTS) + PORTS.start)
        for _ in PORTS:
            port = port + 1 if port + 1 in PORTS else PORTS.start
            with socket.socket() as probe:
                try:
                    probe.bind(("", port))
                except OSError:
                    continue
            last.truncate(0)
            last.write(str(port))
            return port
    raise AssertionError(f"all ports of {PORTS} are in use")


def main():
    """Runs the script's tests; its exit status is 77, which CTest counts as skipped, if all of them were skipped."""
    result = unittest.main(exit=False, verbosity=1).result
    skipped_all = result.skipped and len(result.skipped) == result.testsRun
    sys.exit(77 if skipped_all else not result.wasSuccessful())

#!/usr/bin/env python3
"""How fast dlaunch forwards its workers' output, next to mpiexec.hydra, in one run.

    bench/setup; cmake -S . -B build && cmake --build build; bench/output_bench.py [build/bin]

Each worker writes lines with head and yes; the output goes to a pipe that cat empties, and to a file. Commands take
turns; medians. Resident is the peak of the dlaunch process.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

BIN = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/bin")
DLAUNCH = os.path.join(BIN, "dlaunch")
TOTAL = 1 << 30
RUNS = 3


def seconds(command, target):
    """The time, and the peak of the launcher's memory in MiB."""
    with tempfile.NamedTemporaryFile() as file:
        begin = time.perf_counter()
        if target == "pipe":
            launcher = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
            reader = subprocess.Popen(["cat"], stdin=launcher.stdout, stdout=subprocess.DEVNULL)
            launcher.stdout.close()
        else:
            launcher = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file)
            reader = None
        _, status, usage = os.wait4(launcher.pid, 0)
        launcher.returncode = os.waitstatus_to_exitcode(status)
        if reader:
            reader.wait()
        taken = time.perf_counter() - begin
        if target == "file" and os.path.getsize(file.name) < TOTAL * 0.99:
            sys.exit(f"output_bench: {command[0]} lost output")
    if launcher.returncode != 0:
        sys.exit(f"output_bench: {command[0]} failed")
    return taken, usage.ru_maxrss / 1024


def compare(workers, line, target):
    script = f"yes {'x' * (line - 1)} | head -c {TOTAL // workers}"
    commands = {
        "dlaunch": [DLAUNCH, f"--nproc-per-node={workers}", "sh", "-c", script],
        "mpiexec.hydra": ["mpiexec.hydra", "-n", str(workers), "sh", "-c", script],
    }
    taken = {name: [] for name in commands}
    for _ in range(RUNS):
        for name, command in commands.items():
            taken[name].append(seconds(command, target))
    medians = {name: statistics.median(time for time, _ in times) for name, times in taken.items()}
    peak = max(memory for _, memory in taken["dlaunch"])
    print(f"{workers} workers, lines of {line:4} bytes, 1 GiB to a {target}: dlaunch {medians['dlaunch']:5.2f} s, "
          f"mpiexec.hydra {medians['mpiexec.hydra']:5.2f} s, {medians['mpiexec.hydra'] / medians['dlaunch']:.2f} x as fast; "
          f"{peak:.1f} MiB resident", flush=True)


for to in ("pipe", "file"):
    for count in (1, 4):
        for length in (80, 1000):
            compare(count, length, to)

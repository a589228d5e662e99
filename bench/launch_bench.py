#!/usr/bin/env python3
"""How fast dlaunch starts and restarts, next to a bare posix_spawn loop and MPICH's mpiexec.hydra, in one run.

    bench/setup; cmake -S . -B build -DDLAUNCH_BENCH=ON; cmake --build build; bench/launch_bench.py [build/bin]

Every figure is a median; the commands of one comparison take turns, so that a machine whose speed drifts slows
all of them alike.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

BIN = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/bin")
HELLO = os.path.join(BIN, "hello")
DLAUNCH = os.path.join(BIN, "dlaunch")


def seconds(command):
    """None where the command failed: mpiexec.hydra now and then dies of SIGPIPE when its processes end at once."""
    begin = time.perf_counter()
    done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    return time.perf_counter() - begin if done.returncode == 0 else None


def compare(workers, runs):
    commands = {
        "posix_spawn loop": [os.path.join(BIN, "spawn_floor"), str(workers), HELLO],
        "dlaunch": [DLAUNCH, f"--nproc-per-node={workers}", HELLO],
    }
    if shutil.which("mpiexec.hydra"):
        commands["mpiexec.hydra"] = ["mpiexec.hydra", "-n", str(workers), HELLO]
    times = {name: [] for name in commands}
    for run in range(runs + 1):  # the first is a warm-up
        for name, command in commands.items():
            taken = seconds(command)
            if run and taken is not None:
                times[name].append(taken)
    floor = statistics.median(times["posix_spawn loop"])
    print(f"{workers} x hello, whole command, median of {runs}:")
    for name, taken in times.items():
        median = statistics.median(taken)
        failed = f"   ({runs - len(taken)} runs failed)" if len(taken) < runs else ""
        print(f"  {name:18} {median * 1e3:8.2f} ms   {median / floor:5.2f} x the loop{failed}")


def resident():
    """Peak of the dlaunch process (VmHWM) while four workers run."""
    with subprocess.Popen([DLAUNCH, "--nproc-per-node=4", "sh", "-c", "echo up; read line || true"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as job:
        for _ in range(4):
            job.stdout.readline()
        with open(f"/proc/{job.pid}/status", encoding="utf-8") as status:
            peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
        job.stdin.close()
        job.wait()
    print(f"dlaunch process with 4 workers: {peak / 1024:.1f} MiB resident at most")


def restart(runs):
    taken = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([DLAUNCH, "--nproc-per-node=4", "--max-restarts=1", os.path.join(BIN, "restart_worker"), folder],
                           check=True, stderr=subprocess.DEVNULL)

            def when(name):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    return int(file.read())
            taken.append((max(when(f"began.{rank}") for rank in range(4)) - when("died.0")) / 1e6)
    print(f"from a worker's death to the 4th new worker's main, median of {runs}: {statistics.median(taken):.2f} ms "
          f"(least {min(taken):.2f}, most {max(taken):.2f})")


compare(4, 31)
compare(256, 7)
resident()
restart(15)

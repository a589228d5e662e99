#!/usr/bin/env python3
"""torchelastic's watchdog: workers set timers for themselves, and who overruns one is killed. Only he.

    DLAUNCH_BIN_DIR=build/bin timer_test.py [Class.test ...]

Every wait is for an event and has a deadline.
"""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import unittest

from common import DLAUNCH, PATIENCE, TORCH_PYTHON, environment, main, summary, wait_until

PYTHON = TORCH_PYTHON

# A client of the bare protocol.
CLIENT = """
import json, os, signal, subprocess, sys, time
rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
def write(data):
    fd = os.open(os.environ["TORCHELASTIC_TIMER_FILE"], os.O_WRONLY)
    while data:
        data = data[os.write(fd, data):]
    os.close(fd)
def line(expires, scope="step", pid=None, **more):
    return json.dumps({"version": 1, "pid": pid or os.getpid(), "scope_id": scope, "expiration_time": expires, "signal": 9, **more}).encode() + b"\\n"
def timer(expires, *words, **more):
    write(line(expires, *words, **more))
def hang():
    while True:
        signal.pause()
"""

TORCH = """
import os, time
from torch.distributed.elastic import timer
timer.configure(timer.FileTimerClient(os.environ["TORCHELASTIC_TIMER_FILE"]))
with timer.expires(after=1000, scope="in time"):
    pass
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    with timer.expires(after=0.01, scope="too slow" if os.environ["RANK"] == "1" else "much time"):
        time.sleep(1000)
"""


class Timers(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="dlaunch_timer_test.")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.tmp = os.path.join(self.dir, "tmp")
        os.mkdir(self.tmp)

    def path(self, name):
        return os.path.join(self.dir, name)

    def start(self, *arguments, **variables):
        job = subprocess.Popen([DLAUNCH, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               cwd=self.dir, env={**environment(), "TMPDIR": self.tmp, "TORCHELASTIC_ENABLE_FILE_TIMER": "1", **variables})
        self.addCleanup(job.kill)
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.stderr.close)
        return job

    def run_job(self, *arguments, **variables):
        job = self.start(*arguments, **variables)
        out, err = job.communicate(timeout=PATIENCE)
        return subprocess.CompletedProcess(arguments, job.returncode, out, err)

    def run_clients(self, program, *arguments, **variables):
        return self.run_job(*arguments, sys.executable, "-c", CLIENT + program, **variables)


class Expiry(Timers):
    def test_only_the_worker_that_overruns_is_killed_and_the_job_goes_on(self):
        done = self.run_clients("""
if attempt > 0:
    sys.exit(0)
def told(signo, frame):
    print(f"rank {rank} was told to stop", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, told)
open(f"ready.{rank}", "w").close()
if rank == 1:
    while not os.path.exists("ready.0"):
        time.sleep(0.005)
    timer(time.time() + 0.05)
hang()
""", "--nproc-per-node=2", "--max-restarts=1", f"--events={self.path('events')}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines(), ["rank 0 was told to stop"])
        with open(self.path("events"), encoding="utf-8") as file:
            failed = [event for event in map(json.loads, file) if event["event"] == "failed"]
        self.assertEqual([(event["rank"], event["text"]) for event in failed], [(1, "was killed by signal 9 (SIGKILL): its timer 'step' expired")])

    def test_the_report_has_the_reason(self):
        done = self.run_clients("timer(time.time())\nhang()", f"--report={self.path('end.json')}")
        self.assertEqual(done.returncode, 128 + signal.SIGKILL, done.stderr)
        self.assertRegex(summary(done.stderr), r"^dlaunch: failed: rank 0 \(.*\) was killed by signal 9 \(SIGKILL\): its timer 'step' expired; not restarted")
        with open(self.path("end.json"), encoding="utf-8") as file:
            self.assertIn("its timer 'step' expired", json.load(file)["cause"]["text"])

    def test_a_timer_without_a_signal_is_only_reported(self):
        done = self.run_clients('write(line(time.time(), "asks for none", signal=0))\ntimer(time.time() + 0.2)\nhang()')
        self.assertEqual(done.returncode, 128 + signal.SIGKILL, done.stderr)
        self.assertRegex(done.stderr, r"dlaunch: timer 'asks for none' of process \d+.* has expired; it asks for no signal\n")
        self.assertRegex(summary(done.stderr), "its timer 'step' expired")

    def test_timers_released_or_renewed_in_time_kill_no_process(self):
        """Rank 1's timer expires after the two of rank 0 would have."""
        done = self.run_clients("""
if rank == 0:
    soon = time.time() + 0.2
    write(line(soon, "released") + line(soon, "set anew") + line(-1, "released", signal=0) + line(soon + 1000, "set anew"))
    with open("soon.new", "w") as file:
        file.write(str(soon))
    os.rename("soon.new", "soon")
else:
    while not os.path.exists("soon"):
        time.sleep(0.005)
    timer(float(open("soon").read()) + 0.1)
hang()
""", "--nproc-per-node=2")
        self.assertEqual(done.returncode, 128 + signal.SIGKILL, done.stderr)
        self.assertRegex(summary(done.stderr), "rank 1 .*: its timer 'step' expired")
        self.assertNotIn("other failure", done.stderr)

    def test_it_is_the_clients_signal_that_is_sent(self):
        done = self.run_clients("""
heard = []
signal.signal(signal.SIGUSR1, lambda signo, frame: heard.append(signo))
timer(time.time(), "first", signal=signal.SIGUSR1)
while not heard:
    time.sleep(0.005)
sys.exit(3)
""")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("exited with code 3: it had received SIGUSR1 because its timer 'first' expired", summary(done.stderr))

    def test_what_is_no_signal_is_sigkill(self):
        for signo in (1000, "x"):
            done = self.run_clients(f"timer(time.time(), signal={signo!r})\nhang()")
            self.assertEqual(done.returncode, 128 + signal.SIGKILL, done.stderr)

    def test_pytorchs_own_client(self):
        if subprocess.run([PYTHON, "-c", "import torch.distributed.elastic.timer"], capture_output=True, check=False).returncode != 0:
            self.skipTest(f"{PYTHON} has no torch")
        with open(self.path("train.py"), "w", encoding="utf-8") as file:
            file.write(TORCH.replace("after=0.01", "after=0.01 if os.environ['RANK'] == '1' else 1000"))
        done = self.run_job("--nproc-per-node=2", "--max-restarts=1", f"--events={self.path('events')}", "train.py", PYTHON_EXEC=PYTHON)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("events"), encoding="utf-8") as file:
            failed = [event for event in map(json.loads, file) if event["event"] == "failed"]
        self.assertEqual([(event["rank"], event["text"]) for event in failed], [(1, "was killed by signal 9 (SIGKILL): its timer 'too slow' expired")])


class Strangers(Timers):
    def test_only_processes_of_the_job_are_touched(self):
        """Neither the agent, its helpers nor any other process is killed; each is named."""
        stranger = subprocess.Popen(["sleep", "1000"])
        self.addCleanup(stranger.wait)
        self.addCleanup(stranger.kill)
        done = self.run_clients("""
def parent(pid):
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])
keeper = os.getppid()
guard = parent(keeper)
others = [int(os.environ["STRANGER"]), keeper, guard, parent(guard)]
print(*others)
write(b"".join(line(1, pid=other) for other in others))
timer(time.time() + 0.05, "own")
hang()
""", STRANGER=str(stranger.pid))
        self.assertEqual(done.returncode, 128 + signal.SIGKILL, done.stderr)
        self.assertIn("its timer 'own' expired", summary(done.stderr))
        self.assertIsNone(stranger.poll())
        others = done.stdout.split()
        self.assertEqual(len(others), 4)
        for other in others:
            self.assertRegex(done.stderr, rf"timer 'step' of process {other} \(.*\) has expired, but the process does not belong to this job: no signal was sent")

    def test_a_process_that_comes_from_a_worker_is_killed_and_named(self):
        done = self.run_clients("""
child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
print(child.pid, flush=True)
timer(time.time(), "load", pid=child.pid)
sys.exit(0 if child.wait() == -9 else 1)
""")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"timer 'load' of process {done.stdout.strip()} (sleep), a descendant of a worker, has expired: SIGKILL was sent", done.stderr)

    def test_garbage_does_no_harm_and_is_not_reported_for_ever(self):
        done = self.run_clients("""
noise = [b"", b"x" * 100_000, b"[" * 4000, b"{}", b"null", b'{"pid": 1e999}', line(1, pid=2**40).strip(), line(1, scope=[]).strip(),
         os.urandom(5000).replace(b"\\n", b""), line(float("inf")).strip()]
write(b"\\n".join(noise * 50) + b"\\n")
timer(time.time() + 0.05)
hang()
""")
        self.assertEqual(done.returncode, 128 + signal.SIGKILL, done.stderr)
        self.assertIn("its timer 'step' expired", summary(done.stderr))
        told = [line for line in done.stderr.splitlines() if "cannot read a request for a timer: " in line]
        self.assertEqual(len(told), 20, done.stderr)
        self.assertTrue(told[-1].endswith("; further warnings about timers are not shown"), told[-1])


    def test_excess_timers_are_reported_and_the_others_count(self):
        done = self.run_clients("""
write(b"".join(line(time.time() + 1000, str(i)) for i in range(5000)))
timer(time.time() + 0.05, "0")
hang()
""")
        self.assertEqual(done.returncode, 128 + signal.SIGKILL, done.stderr)
        self.assertIn("its timer '0' expired", summary(done.stderr))
        self.assertRegex(done.stderr, r"timer '4096' of process \d+ \(.*\) was rejected: there are 4096 timers already")


class Fifo(Timers):
    FILE = ["sh", "-c", '[ -p "$TORCHELASTIC_TIMER_FILE" ] && echo $TORCHELASTIC_TIMER_FILE']

    def refused(self, path, code):
        done = self.run_job("echo", "started", TORCHELASTIC_TIMER_FILE=path)
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertEqual(os.listdir(self.tmp), [])
        return done.stderr

    def test_it_is_made_at_the_given_path_and_removed(self):
        done = self.run_job(*self.FILE, TORCHELASTIC_TIMER_FILE=self.path("timers"))
        self.assertEqual((done.returncode, done.stdout.strip()), (0, self.path("timers")), done.stderr)
        self.assertFalse(os.path.exists(self.path("timers")))
        done = self.run_job(*self.FILE, TORCHELASTIC_TIMER_FILE="relative")
        self.assertEqual((done.returncode, done.stdout.strip()), (0, self.path("relative")), done.stderr)
        self.assertFalse(os.path.exists(self.path("relative")))

    def test_without_a_name_it_is_in_a_place_of_its_own(self):
        done = self.run_job(*self.FILE, TORCHELASTIC_TIMER_FILE="")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith(self.tmp), done.stdout)
        self.assertEqual(os.listdir(self.tmp), [])

    def test_one_that_is_there_is_used_and_stays(self):
        os.mkfifo(self.path("timers"))
        done = self.run_clients("timer(time.time())\nhang()", TORCHELASTIC_TIMER_FILE=self.path("timers"))
        self.assertIn("its timer 'step' expired", summary(done.stderr))
        self.assertTrue(stat.S_ISFIFO(os.stat(self.path("timers")).st_mode))

    def test_another_file_there_is_an_error_before_the_start(self):
        open(self.path("file"), "w", encoding="utf-8").close()
        os.mkfifo(self.path("fifo"))
        os.symlink("fifo", self.path("link"))
        for name in ("file", "link", "tmp"):
            self.assertRegex(self.refused(self.path(name), 2), f"cannot read the workers' timers from {self.path(name)}: it is not a FIFO of this user")
            self.assertTrue(os.path.lexists(self.path(name)))
        self.assertRegex(self.refused(self.path("no/such"), 1), "No such file or directory; set TORCHELASTIC_TIMER_FILE to another path")

    def test_two_jobs_do_not_read_the_same_one(self):
        first = self.start("sh", "-c", "echo up; exec sleep 1000", TORCHELASTIC_TIMER_FILE=self.path("timers"))
        self.assertEqual(first.stdout.readline(), "up\n")
        self.assertIn("another dlaunch reads this FIFO", self.run_job("true", TORCHELASTIC_TIMER_FILE=self.path("timers")).stderr)
        first.terminate()
        first.wait(PATIENCE)
        self.assertFalse(os.path.exists(self.path("timers")))

    def test_it_is_removed_after_kill_9(self):
        job = self.start("sh", "-c", "echo up; exec sleep 1000", TORCHELASTIC_TIMER_FILE=self.path("timers"))
        self.assertEqual(job.stdout.readline(), "up\n")
        self.assertTrue(os.path.exists(self.path("timers")))
        job.kill()
        wait_until(lambda: not os.path.exists(self.path("timers")), "the FIFO is gone")

    def test_it_exists_only_on_request(self):
        done = self.run_job("sh", "-c", "echo $TORCHELASTIC_TIMER_FILE", TORCHELASTIC_ENABLE_FILE_TIMER="0", TORCHELASTIC_TIMER_FILE=self.path("timers"))
        self.assertEqual((done.returncode, done.stdout.strip()), (0, self.path("timers")), done.stderr)
        self.assertFalse(os.path.exists(self.path("timers")))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""dlaunch started where something is missing, exhausted or set in an unusual way: it works, or its last line says
what, where, why and what to do; and nothing remains.

    DLAUNCH_BIN_DIR=build/bin odd_start_test.py [Class.test ...]
"""

import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import uuid

from common import DLAUNCH, PATIENCE, children_of, helpers_of, is_sanitized, main, marked, summary, wait_until

NOBODY = 200_000 + os.getpid()  # a user who has no process yet, nor in another run of this test

# Two workers wait here for each other: whoever fails first would have the other stopped.
TOGETHER = ": > here.$RANK; until [ -e here.0 ] && [ -e here.1 ]; do sleep 0.005; done; "


class OddStart(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="dlaunch_odd_start_test.")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.mark = uuid.uuid4().hex
        self.environment = {"PATH": os.environ["PATH"], "ODD_MARK": self.mark}

    def run_job(self, *arguments, before=None, prefix=(), dlaunch=DLAUNCH, **more):
        """`before` runs in the process that becomes dlaunch."""
        settings = {"cwd": self.dir, "env": self.environment, "text": True, "stdin": subprocess.DEVNULL, "capture_output": True,
                    "timeout": PATIENCE, "check": False, **more}
        return subprocess.run([*prefix, dlaunch, *arguments], preexec_fn=before, **settings)

    def tearDown(self):
        deadline = time.monotonic() + PATIENCE
        while pids := marked(self.mark.encode()):
            if time.monotonic() > deadline:
                for pid in pids:
                    os.kill(pid, signal.SIGKILL)
                self.fail(f"{pids} remain")
            time.sleep(0.005)

    def path(self, name):
        return os.path.join(self.dir, name)

    def text_of(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def needs_root(self):
        if os.geteuid() != 0:
            self.skipTest("only root can set this up")

    def needs_plain_build(self):
        """A sanitizer's own needs would meet the limit first."""
        if is_sanitized():
            self.skipTest("not with a sanitizer")

    def unshared(self, setting):
        """The command prefix that runs dlaunch in its own mount namespace, after the commands of `setting`."""
        prefix = ["unshare", "--mount", "sh", "-ec", setting + '; exec "$@"', "sh"]
        if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no mounts of one's own here")
        return prefix


class Inherited(OddStart):
    def test_closed_standard_descriptors(self):
        for closed in ((0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)):
            with self.subTest(closed=closed):
                def close_them():
                    for fd in closed:
                        os.close(fd)
                done = self.run_job("--nproc-per-node=2", "sh", "-c", 'cat > in.$RANK; echo "hello $RANK"; echo "oops $RANK" >&2; ' + TOGETHER + 'exit $((RANK * 3))',
                                    before=close_them)
                self.assertEqual(done.returncode, 3)
                self.assertEqual(sorted(done.stdout.splitlines()), [] if 1 in closed else ["hello 0", "hello 1"])
                own = [line for line in done.stderr.splitlines() if line.startswith("oops")]
                self.assertEqual(sorted(own), [] if 2 in closed else ["oops 0", "oops 1"])
                self.assertEqual(self.text_of("in.0"), "")
                for name in ("here.0", "here.1"):
                    os.unlink(self.path(name))

    def test_an_ignored_sigchld(self):
        ignore = lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        done = self.run_job("--nproc-per-node=2", "--max-restarts=1", "sh", "-c", "sh -c 'exit 7'; exit $(($? - 2))", before=ignore)
        self.assertEqual(done.returncode, 5, done.stderr)

    def test_blocked_signals(self):
        block = lambda: signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        job = subprocess.Popen([DLAUNCH, "--stop-timeout=1000", "sh", "-c", "grep SigBlk /proc/self/status; echo up; exec sleep 1000"], cwd=self.dir,
                               env=self.environment, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=block)
        self.assertRegex(job.stdout.readline(), r"^SigBlk:\s+0+\n$")
        self.assertEqual(job.stdout.readline(), "up\n")
        job.send_signal(signal.SIGTERM)
        _, err = job.communicate(timeout=PATIENCE)
        self.assertEqual(job.returncode, 143, err)

    def test_only_signals_ignored_by_nohup_stay_ignored(self):
        ignore = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
        ignored = [self.run_job("sh", "-c", "grep SigIgn /proc/self/status", before=before).stdout.split()[1] for before in (ignore, None)]
        self.assertEqual([int(mask, 16) for mask in ignored], [1 << (signal.SIGHUP - 1), 0])

    def test_a_deleted_working_directory(self):
        gone = self.path("gone")
        os.mkdir(gone)
        go = lambda: (os.chdir(gone), os.rmdir(gone))
        done = self.run_job("--nproc-per-node=2", "sh", "-c", "echo $RANK", before=go)
        self.assertEqual((done.returncode, sorted(done.stdout.split())), (0, ["0", "1"]), done.stderr)
        os.mkdir(gone)
        done = self.run_job("--log-dir=logs", "--tee=3", "true", before=go)
        self.assertEqual((done.returncode, done.stderr),
                         (1, "dlaunch: cannot make a log directory in logs: No such file or directory; choose another --log-dir\n"))

    def test_a_program_file_that_may_be_run_but_not_read(self):
        self.needs_root()
        shutil.copy(DLAUNCH, self.path("dlaunch"))
        os.chmod(self.path("dlaunch"), 0o711)
        os.chmod(self.dir, 0o777)
        # Neither its file nor most of its /proc may be read by itself.
        become = lambda: (os.setgroups([]), os.setgid(NOBODY), os.setuid(NOBODY))
        done = self.run_job("--nproc-per-node=2", "--max-restarts=1", "sh", "-c", "setsid sleep 1000 & echo $RANK; exit $TORCHELASTIC_RESTART_COUNT",
                            before=become, dlaunch="./dlaunch")
        self.assertEqual((done.returncode, sorted(done.stdout.split())), (0, ["0", "1"]), done.stderr)


class Limits(OddStart):
    @staticmethod
    def files(soft, hard):
        return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def test_few_files(self):
        self.needs_plain_build()
        worked = failed = 0
        for hard in range(4, 64, 3):
            done = self.run_job("--nproc-per-node=5", "echo", "up", before=self.files(hard, hard))
            if done.returncode == 0:
                worked += 1
                self.assertEqual(done.stdout, "up\n" * 5)
            else:
                failed += 1
                # With fewer than the dynamic loader needs, the loader reports the error instead.
                expected = (r"^dlaunch: cannot start 5 workers: \d+ open files are needed, but only " + str(hard) + r" are allowed; raise the hard limit "
                            r"\(ulimit -Hn, or LimitNOFILE=, or the container's nofile\)\n$|error while loading shared libraries")
                self.assertRegex(done.stderr, expected)
        self.assertGreater(worked, 0)
        self.assertGreater(failed, 0)

    def test_a_low_soft_limit_is_raised_for_dlaunch_alone(self):
        done = self.run_job("--nproc-per-node=20", "sh", "-c", "ulimit -n", before=self.files(40, 400))
        self.assertEqual((done.returncode, done.stdout), (0, "40\n" * 20), done.stderr)
        done = self.run_job("true", before=self.files(8, 400))
        self.assertEqual((done.returncode, done.stderr), (1, "dlaunch: cannot start 1 worker: 32 open files are needed, but only 8 are allowed; raise ulimit -n\n"))

    @staticmethod
    def has_processes(user):
        """Also zombies, which count for the limit."""
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/status", encoding="utf-8") as status:
                    if f"\nUid:\t{user}\t" in status.read():
                        return True
            except (FileNotFoundError, ProcessLookupError):
                pass
        return False

    def test_few_processes(self):
        self.needs_plain_build()
        self.needs_root()
        os.chmod(self.dir, 0o777)

        def become(limit):
            def now():
                resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            return now
        advice = r"Resource temporarily unavailable.*raise the limit on processes"
        for limit in range(1, 7):
            wait_until(lambda: not self.has_processes(NOBODY), "the last job's helpers count no more")
            done = self.run_job("--nproc-per-node=4", "sh", "-c", "echo up; exec sleep 1000", before=become(limit))
            last = summary(done.stderr)
            if limit < 3:
                self.assertRegex(last, "^dlaunch: cannot start the keeper process: " + advice)
            else:
                self.assertRegex(last, rf"^dlaunch: failed: rank {limit - 3} .* could not be started: " + advice)
            self.assertEqual(done.returncode, 1)
        wait_until(lambda: not self.has_processes(NOBODY), "the last job's helpers count no more")
        done = self.run_job("--nproc-per-node=4", "true", before=become(7))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_arguments_and_variables_without_room_for_more(self):
        """As much as still lets dlaunch start: for a worker, which gets some variables more, it is too much."""
        def fill(size):
            return {**self.environment, **{f"FILL{i}": "x" * min(100_000, size - i * 100_000) for i in range(size // 100_000 + 1)}}
        fits, too_much, done = 0, 64 << 20, None
        while too_much - fits > 64:
            middle = (fits + too_much) // 2
            try:
                done = self.run_job("--nproc-per-node=2", "true", env=fill(middle))
                fits = middle
            except OSError:
                too_much = middle
        self.assertEqual(done.returncode, 1)
        self.assertRegex(summary(done.stderr), r"^dlaunch: failed: rank \d .* could not be started: Argument list too long "
                                                       r"\(its arguments and variables together; pass less, or raise ulimit -s\)")


class FileSystems(OddStart):
    def test_a_read_only_temporary_directory(self):
        place = self.path("dlaunch")
        shutil.copy(DLAUNCH, place)  # the build may lie below /tmp
        prefix = self.unshared("cd /; mount -t tmpfs none /mnt; cp " + place + " /mnt/dlaunch; mount -t tmpfs -o ro none /dev/shm; "
                               "mount -t tmpfs -o ro none /tmp; cd /mnt")
        done = self.run_job("sh", "-c", "echo ${TORCHELASTIC_ERROR_FILE-none}; exit 4", prefix=prefix, dlaunch="/mnt/dlaunch")
        self.assertEqual((done.returncode, done.stdout), (4, "none\n"), done.stderr)
        self.assertIn("workers have no error files: cannot make a directory in /tmp: Read-only file system", done.stderr)

    def test_a_full_shared_memory(self):
        prefix = self.unshared("mount -t tmpfs -o nr_inodes=1 none /dev/shm")
        done = self.run_job("sh", "-c", "echo $TORCHELASTIC_ERROR_FILE", prefix=prefix)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith("/tmp/dlaunch-"), done.stdout)

    def test_a_place_that_the_user_named(self):
        for place, why in (("/proc", ""), ("/nowhere", "No such file or directory")):
            done = self.run_job("true", env={**self.environment, "TMPDIR": place})
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, f"^dlaunch: cannot make a directory in {place}: .*{why}.*; free some space there, or set TMPDIR to another directory\n$")

    def test_dead_jobs_files_go_with_the_next_start(self):
        tmp = self.path("tmp")
        os.mkdir(tmp)
        left, other = os.path.join(tmp, "dlaunch-job-1-abcdef"), os.path.join(tmp, "dlaunch-mine")
        os.makedirs(os.path.join(left, "round"))
        os.mkdir(other)
        done = self.run_job("sh", "-c", "ls $TMPDIR | wc -l", env={**self.environment, "TMPDIR": tmp})
        self.assertEqual((done.returncode, done.stdout.strip()), (0, "2"), done.stderr)
        self.assertEqual(os.listdir(tmp), ["dlaunch-mine"])

    def test_living_jobs_files_stay(self):
        tmp = self.path("tmp")
        os.mkdir(tmp)
        variables = {**self.environment, "TMPDIR": tmp}
        job = subprocess.Popen([DLAUNCH, "sh", "-c", "echo up; read line; ls $TMPDIR"], cwd=self.dir, env=variables, text=True, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)
        self.assertEqual(job.stdout.readline(), "up\n")
        before = os.listdir(tmp)
        self.assertEqual(self.run_job("true", env=variables).returncode, 0)
        out, _ = job.communicate("go\n", timeout=PATIENCE)
        self.assertEqual(out.split(), before)
        self.assertEqual((job.returncode, os.listdir(tmp)), (0, []))


class Namespaces(OddStart):
    """As process 1 of a container, or of one whose /proc shows other numbers than its own."""

    def setUp(self):
        super().setUp()
        if subprocess.run(["unshare", "--pid", "--fork", "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no process namespaces here")

    WORKER = ("--nproc-per-node=2", "--stop-timeout=0.1", "sh", "-c",
              "(setsid sh -c 'trap : TERM; sleep 1000; sleep 1000' &) & echo $RANK; " + TOGETHER + "exit $((RANK * 5))")

    def check(self, done):
        self.assertEqual((done.returncode, sorted(done.stdout.split())), (5, ["0", "1"]), done.stderr)

    def test_process_1(self):
        self.check(self.run_job(*self.WORKER, prefix=("unshare", "--pid", "--fork", "--mount-proc")))

    def test_process_1_with_a_foreign_proc(self):
        self.check(self.run_job(*self.WORKER, prefix=("unshare", "--pid", "--fork")))

    def test_a_foreign_proc(self):
        """Other processes of the namespace are not touched, although their pids mean other processes in /proc."""
        with open(self.path("script"), "w", encoding="utf-8") as file:
            file.write('sleep 1000 & "$@"; code=$?; kill -0 $! || exit 99; kill $!; exit $code')
        self.check(self.run_job(*self.WORKER, prefix=("unshare", "--pid", "--fork", "sh", self.path("script"))))

    def test_process_1_reaps_orphans_that_are_not_its_own(self):
        job = subprocess.Popen(["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", DLAUNCH, "sh", "-c", "echo up; exec sleep 1000"],
                               cwd=self.dir, env=self.environment, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(job.stdout.readline(), "up\n")
        with open(f"/proc/{job.pid}/task/{job.pid}/children", encoding="utf-8") as children:
            agent = children.read().split()[0]
        enter = ("nsenter", "--target", agent, "--pid", "--mount")
        # Its parent ends at once, as after "docker exec": process 1 inherits it.
        subprocess.run([*enter, "sh", "-c", "(sleep 0.01; :) &"], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, timeout=PATIENCE)
        own = helpers_of(int(agent)).values()
        try:
            wait_until(lambda: set(children_of(agent)) <= set(own), "no zombie stays")
        finally:
            job.kill()
            job.communicate()


if __name__ == "__main__":
    main()

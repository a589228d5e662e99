#!/usr/bin/env python3
"""dlaunch logs: it finds a job's log files, shows and follows them.

    DLAUNCH_BIN_DIR=build/bin logs_test.py [Class.test ...]

Every wait is for an event and has a deadline.
"""

import glob
import os
import re
import signal
import subprocess
import time

from common import DLAUNCH, PATIENCE, free_port, main
from output_case import SPEAK, Output


class LogsCommand(Output):
    def logs_of(self, *arguments, **variables):
        return subprocess.run([DLAUNCH, "logs", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env={**os.environ, "TMPDIR": self.dir, **variables}, timeout=PATIENCE, check=False)

    def start(self, *arguments):
        """A job that writes log files, once it can be found."""
        job = subprocess.Popen([DLAUNCH, *arguments], cwd=self.dir, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "TMPDIR": self.dir})
        self.addCleanup(job.communicate)
        self.addCleanup(job.kill)
        deadline = time.monotonic() + PATIENCE
        while "log_dir" not in subprocess.run([DLAUNCH, "status", "--json", str(job.pid)], capture_output=True, text=True,
                                              timeout=PATIENCE, check=False).stdout:
            self.assertLess(time.monotonic(), deadline)
        return job

    def follow(self, *arguments):
        follower = subprocess.Popen([DLAUNCH, "logs", "-f", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                                    env={**os.environ, "TMPDIR": self.dir})
        self.addCleanup(follower.communicate)
        self.addCleanup(follower.kill)
        return follower

    @staticmethod
    def holds_a_process(pid):
        """Whether it watches another process: then it has found its job."""
        folder = f"/proc/{pid}/fd"
        try:
            return any("pidfd" in os.readlink(os.path.join(folder, fd)) for fd in os.listdir(folder))
        except OSError:  # closed meanwhile
            return False

    def go(self, name="go"):
        with open(os.path.join(self.dir, name), "w", encoding="utf-8"):
            pass

    def await_logs(self, text, *arguments):
        deadline = time.monotonic() + PATIENCE
        while text not in self.logs_of(*arguments).stdout:
            self.assertLess(time.monotonic(), deadline, text)

    def test_reports_that_nothing_was_written(self):
        self.run_job(f"--log-dir={self.logs}", "-r3", "true")
        logs = self.logs_of(f"--log-dir={self.logs}")
        self.assertEqual((logs.returncode, logs.stdout), (0, ""))
        self.assertRegex(logs.stderr, r"^dlaunch: the log files in \S+ are empty so far\n$")

    def test_shows_what_was_written(self):
        self.run_job("--nproc-per-node=2", f"--log-dir={self.logs}", "-r3", "sh", "-c", SPEAK)
        self.assertEqual(self.logs_of(f"--log-dir={self.logs}").stdout, "[0] out 0\n[0] err 0\n[1] out 1\n[1] err 1\n")
        self.assertEqual(self.logs_of(f"--log-dir={self.logs}", "--rank=1").stdout, "[1] out 1\n[1] err 1\n")
        self.assertEqual(self.logs_of(f"--log-dir={self.logs}", "--attempt=7").returncode, 1)

    def test_of_several_jobs_in_one_directory_the_requested_one(self):
        for name in ("one", "two"):
            self.run_job(f"--rdzv-id={name}", f"--log-dir={self.logs}", "-r1", "echo", f"this is {name}")
        for name in ("one", "two"):
            self.assertEqual(self.logs_of(f"--log-dir={self.logs}", name).stdout, f"[0] this is {name}\n")
            self.assertEqual(self.logs_of(name, DLAUNCH_LOG_DIR=self.logs).stdout, f"[0] this is {name}\n")
            self.assertEqual(self.logs_of(name, PET_LOG_DIR=self.logs).stdout, f"[0] this is {name}\n")
        self.assertEqual(self.logs_of(f"--log-dir={self.logs}").stdout, "[0] this is two\n")
        own = os.path.realpath(os.path.join(self.logs, "latest"))
        self.assertEqual(self.logs_of(f"--log-dir={own}", "two").stdout, "[0] this is two\n")
        self.assertEqual(self.logs_of(f"--log-dir={own}", "one").returncode, 1)
        done = self.logs_of(f"--log-dir={self.logs}", "three")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("no log files of a job 'three' in", done.stderr)

    def test_a_job_that_has_ended_is_found_by_its_id(self):
        name = f"ended-{os.path.basename(self.dir)}"
        for words in ("first", "second"):
            self.run_job(f"--rdzv-id={name}", "-r1", "echo", words)
        self.run_job("--rdzv-id=other", "-r1", "echo", "other")
        for arguments in ((name,), ("-f", name)):
            done = self.logs_of(*arguments)
            self.assertEqual((done.returncode, done.stdout), (0, "[0] second\n"), done.stderr)
        self.assertEqual(self.logs_of("other").stdout, "[0] other\n")

    def test_files_that_were_turned_over_are_shown_too(self):
        self.run_job(f"--log-dir={self.logs}", "-r1", "--log-max-size=10", "--log-keep=2", "sh", "-c",
                     "for i in 1 2 3 4 5 6 7 8 9; do echo line $i; done")
        self.assertEqual(self.logs_of(f"--log-dir={self.logs}").stdout, "[0] line 7\n[0] line 8\n[0] line 9\n")

    def test_a_file_is_shown_though_a_newer_one_is_just_being_turned_over(self):
        self.run_job(f"--log-dir={self.logs}", "-r1", "--log-max-size=10", "--log-keep=3", "sh", "-c",
                     "for i in 1 2 3 4 5 6 7 8 9; do echo line $i; done")
        [file] = glob.glob(os.path.join(os.path.realpath(os.path.join(self.logs, "latest")), "attempt_0", "0",
                                        "stdout.log"))
        # As between two steps of a rotation: the name in the middle is free, its file has the next one.
        os.replace(f"{file}.2", f"{file}.3")
        os.replace(f"{file}.1", f"{file}.2")
        self.assertEqual(self.logs_of(f"--log-dir={self.logs}").stdout, "[0] line 7\n[0] line 8\n[0] line 9\n")

    def test_a_relative_log_dir_is_found_from_another_directory(self):
        job = self.start("--log-dir=rel", "-r1", "sh", "-c", "echo here; exec sleep 1000")
        self.await_logs("[0] here\n", str(job.pid))
        own = os.path.realpath(os.path.join(self.dir, "rel", "latest"))
        status = subprocess.run([DLAUNCH, "status", "--json", str(job.pid)], capture_output=True, text=True, timeout=PATIENCE, check=True)
        self.assertIn(f'"log_dir":"{own}"', status.stdout)

    def test_follows_a_running_job_to_its_end(self):
        job = self.start(f"--log-dir={self.logs}", "-r1", "sh", "-c",
                         "echo first; while [ ! -e go ]; do sleep 0.01; done; printf 'second\nthird'")
        self.await_logs("first", f"--log-dir={self.logs}")
        follower = self.follow(str(job.pid))
        self.assertEqual(follower.stdout.readline(), "[0] first\n")
        self.go()
        self.assertEqual(follower.stdout.read(), "[0] second\n[0] third\n")
        self.assertEqual(follower.wait(PATIENCE), 0)

    def nodes(self, *arguments):
        """A job of two nodes, whose agents share a --log-dir if it is given."""
        both = ["--nnodes=2", "--master-addr=127.0.0.1", f"--master-port={free_port()}", "--nproc-per-node=2", "-r3", *arguments]
        agents = [subprocess.Popen([DLAUNCH, f"--node-rank={node}", *both], cwd=self.dir, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   text=True, env={**os.environ, "TMPDIR": self.dir}) for node in range(2)]
        for agent in agents:
            self.addCleanup(agent.communicate)
            self.addCleanup(agent.kill)
        return agents

    def named(self, attempt=0, job="none"):
        """What the job's names by rank lead to, and that they lead there also when the place is moved."""
        folder = os.path.join(self.logs, job, str(attempt))
        self.assertFalse([name for name in os.listdir(folder) if os.path.isabs(os.readlink(os.path.join(folder, name)))])
        contents = {}
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                contents[name] = file.read()
        return contents

    def test_nodes_that_share_a_place_name_their_files_by_rank(self):
        for agent in self.nodes(f"--log-dir={self.logs}", "sh", "-c", SPEAK):
            self.assertEqual(agent.wait(PATIENCE), 0)
        expected = {f"rank_{rank}.{stream}": f"{stream} {rank}\n" for rank in range(4) for stream in ("err", "out")}
        self.assertEqual(self.named(), expected)
        self.assertEqual(os.readlink(os.path.join(self.logs, "none", "latest")), "0")
        every = "".join(f"[{rank}] out {rank}\n[{rank}] err {rank}\n" for rank in range(4))
        self.assertEqual(self.logs_of(f"--log-dir={self.logs}").stdout, every)
        own = os.path.realpath(os.path.join(self.logs, "latest"))
        self.assertEqual(self.logs_of(f"--log-dir={own}").stdout, every)
        self.assertEqual(self.logs_of(f"--log-dir={self.logs}", "--rank=2").stdout, "[2] out 2\n[2] err 2\n")

    def follow_both_nodes(self, options, job):
        agents = self.nodes(f"--log-dir={self.logs}", *options, "sh", "-c",
                            "echo here $RANK; while [ ! -e go$RANK ]; do sleep 0.01; done; echo gone $RANK; "
                            "while [ ! -e go ]; do sleep 0.01; done")
        for rank in range(4):
            self.await_logs(f"[{rank}] here {rank}\n", *job)
        follower = self.follow(*job)
        self.assertEqual([follower.stdout.readline() for _ in range(4)], [f"[{rank}] here {rank}\n" for rank in range(4)])
        for rank in (3, 0, 2, 1):
            self.go(f"go{rank}")
            self.assertEqual(follower.stdout.readline(), f"[{rank}] gone {rank}\n")
        self.go()
        self.assertEqual(follower.stdout.read(), "")
        self.assertEqual(follower.wait(PATIENCE), 0)
        for agent in agents:
            self.assertEqual(agent.wait(PATIENCE), 0)

    def test_follows_all_nodes_that_share_a_place(self):
        self.follow_both_nodes([], [f"--log-dir={self.logs}"])

    def test_follows_all_nodes_of_the_job_that_is_named(self):
        name = f"followed-{os.path.basename(self.dir)}"
        self.follow_both_nodes([f"--rdzv-id={name}"], [name])

    def test_a_newer_job_of_the_same_id_takes_the_names(self):
        first = ["--rdzv-id=none", "--nproc-per-node=2", "--max-restarts=1", f"--log-dir={self.logs}", "-r1", "sh", "-c",
                 "echo first $RANK; exit $((1 - TORCHELASTIC_RESTART_COUNT))"]
        self.assertEqual(self.run_job(*first).returncode, 0)
        older = os.path.realpath(os.path.join(self.logs, "latest"))
        self.assertEqual((sorted(self.named(0)), self.named(1)), (["rank_0.out", "rank_1.out"], {"rank_0.out": "first 0\n", "rank_1.out": "first 1\n"}))
        self.run_job("--rdzv-id=none", f"--log-dir={self.logs}", "-r1", "echo", "second")
        self.assertEqual(self.named(0), {"rank_0.out": "second\n"})
        self.assertEqual(sorted(name for name in os.listdir(os.path.join(self.logs, "none")) if name[0] != "."), ["0", "latest"])
        self.assertEqual(len(os.listdir(os.path.join(self.logs, "none"))), 3, "nothing is left of the older job's")
        self.assertEqual(self.logs_of(f"--log-dir={self.logs}").stdout, "[0] second\n")
        self.assertEqual(self.logs_of(f"--log-dir={older}").stdout, "[0] first 0\n[1] first 1\n")

    def test_names_that_cannot_be_made_stop_nothing(self):
        os.mkdir(self.logs)
        with open(os.path.join(self.logs, "none"), "w", encoding="utf-8"):
            done = self.run_job("--rdzv-id=none", "--nproc-per-node=2", "--max-restarts=1", f"--log-dir={self.logs}", "-r1", "sh", "-c",
                                "echo $RANK; exit $((1 - TORCHELASTIC_RESTART_COUNT))")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(re.findall(r"cannot make links by rank to the log files in .*/none: Not a directory", done.stderr)), 1, done.stderr)
        self.assertEqual(self.logs_of(f"--log-dir={self.logs}").stdout, "[0] 0\n[1] 1\n")

    def test_a_node_without_a_shared_place_shows_its_ranks(self):
        agents = self.nodes("sh", "-c", "echo here; while [ ! -e go ]; do sleep 0.01; done")
        for rank in (2, 3):
            self.await_logs(f"[{rank}] here\n", str(agents[1].pid))
        self.assertEqual(self.logs_of(str(agents[1].pid)).stdout, "[2] here\n[3] here\n")
        self.go()
        for agent in agents:
            self.assertEqual(agent.wait(PATIENCE), 0)

    def test_ctrl_c_ends_the_following(self):
        job = self.start(f"--log-dir={self.logs}", "-r1", "sh", "-c", "echo first; exec sleep 1000")
        follower = self.follow(str(job.pid))
        self.assertEqual(follower.stdout.readline(), "[0] first\n")
        follower.send_signal(signal.SIGINT)
        self.assertEqual(follower.wait(PATIENCE), 0)

    def test_follows_across_restarts(self):
        job = self.start("--max-restarts=2", f"--log-dir={self.logs}", "-r1", "sh", "-c",
                         "n=$TORCHELASTIC_RESTART_COUNT; echo try $n; while [ ! -e go$n ]; do sleep 0.01; done; exit $((2 - n))")
        follower = self.follow(str(job.pid))
        for attempt in range(3):
            self.assertEqual(follower.stdout.readline(), f"[0] try {attempt}\n")
            self.go(f"go{attempt}")
        self.assertEqual(follower.stdout.read(), "")
        self.assertEqual(follower.wait(PATIENCE), 0)
        self.assertEqual(self.logs_of("--attempt=1", f"--log-dir={self.logs}").stdout, "[0] try 1\n")

    def test_follows_through_files_that_are_turned_over(self):
        job = self.start(f"--log-dir={self.logs}", "-r1", "--log-max-size=2K", "--log-keep=100", "sh", "-c",
                         "for i in $(seq 3000); do echo line $i; done; while [ ! -e go ]; do sleep 0.01; done")
        follower = self.follow(str(job.pid))
        for i in range(1, 3001):
            self.assertEqual(follower.stdout.readline(), f"[0] line {i}\n")
        self.go()
        self.assertEqual(follower.stdout.read(), "")

    def test_waits_for_a_job_that_has_not_begun(self):
        both = ["--nnodes=2", "--master-addr=127.0.0.1", f"--master-port={free_port()}", "-r1", "sh", "-c", "echo begun as $RANK"]
        first = self.start("--node-rank=0", f"--log-dir={self.logs}", *both)
        done = self.logs_of(str(first.pid))
        self.assertEqual((done.returncode, done.stderr.endswith(" yet\n")), (1, True), done.stderr)
        follower = self.follow(str(first.pid))
        deadline = time.monotonic() + PATIENCE
        while not self.holds_a_process(follower.pid):
            self.assertLess(time.monotonic(), deadline)
        other = self.run_job("--node-rank=1", *both)
        self.assertEqual(other.returncode, 0, other.stderr)
        self.assertEqual(follower.stdout.read(), "[0] begun as 0\n")

    def test_missing_log_files_are_reported(self):
        done = self.logs_of(f"--log-dir={self.dir}")
        self.assertEqual((done.returncode, done.stderr), (1, f"dlaunch: no log files in {self.dir}; give the value of the "
                                                             "job's own --log-dir, or a directory in it\n"))
        self.assertEqual(self.logs_of("no-such-job").returncode, 1)
        self.assertEqual(self.logs_of("--rank=x").returncode, 2)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""dlaunch as a user runs it: exit codes, output, signals, and nothing that remains.

    DLAUNCH_BIN_DIR=build/bin launch_test.py [Class.test ...]

Every wait is for an event and has a deadline.
"""

import os
import signal
import subprocess
import sys

from common import DLAUNCH, PATIENCE, alive, environment, helpers_of, main, summary, wait_until
from launch_case import FAMILY, Launch


class Results(Launch):
    def test_zero_only_when_all_return_zero(self):
        self.assertEqual(self.run_dlaunch("--nproc-per-node=3", "true").returncode, 0)
        self.assertEqual(self.run_dlaunch("--nproc-per-node=3", "sh", "-c", "exit $((RANK == 2 ? 9 : 0))").returncode, 9)

    def test_a_failed_worker_is_named_with_its_last_words(self):
        done = self.run_dlaunch("--nproc-per-node=2", "sh", "-c", "[ $RANK = 0 ] && exec sleep 1000; echo boom >&2; exit 3")
        self.assertEqual(done.returncode, 3)
        last = summary(done.stderr)
        self.assertRegex(last, r"^dlaunch: failed: rank 1 \(local rank 1, node 0, host \S+, pid \d+\) exited with code 3; not restarted")
        self.assertIn("  | boom", done.stderr)

    def test_a_signal_is_reported_by_name(self):
        done = self.run_dlaunch("sh", "-c", "kill -SEGV $$")
        self.assertEqual(done.returncode, 139)
        self.assertIn("was killed by signal 11 (SIGSEGV, segmentation fault)", done.stderr)

    def test_a_restart_restarts_all_workers(self):
        done = self.run_dlaunch("--nproc-per-node=2", "--max-restarts=2", "sh", "-c",
                                "echo $RANK of round $TORCHELASTIC_RESTART_COUNT; "
                                ": > seen.$RANK.$TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 2 ] && exit 0; "
                                "[ $RANK = 0 ] && exec sleep 1000; "
                                "while [ ! -e seen.0.$TORCHELASTIC_RESTART_COUNT ]; do sleep 0.005; done; exit 5")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.split("\n")[:-1]),
                         sorted(f"{rank} of round {count}" for rank in range(2) for count in range(3)))
        self.assertIn("restart 2 of 2", done.stderr)

    def test_workers_share_a_session_if_they_outnumber_the_processors(self):
        for processors, workers, sessions in ((1, 3, 1), (2, 2, 2)):
            usable = sorted(os.sched_getaffinity(0))[:processors]
            if len(usable) < processors:
                continue
            done = subprocess.run([DLAUNCH, f"--nproc-per-node={workers}", sys.executable, "-c",
                                   "import os; print(os.getsid(0), os.getpgid(0) == os.getpid())"], cwd=self.dir, env=environment(),
                                  text=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=True,
                                  preexec_fn=lambda: os.sched_setaffinity(0, usable))
            seen = [line.split() for line in done.stdout.splitlines()]
            self.assertEqual([own_group for _, own_group in seen], ["True"] * workers)
            self.assertEqual(len({session for session, _ in seen}), sessions)

    def test_many_workers_start_and_end(self):
        done = self.run_dlaunch("--nproc-per-node=300", "sh", "-c", "echo $RANK")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(map(int, done.stdout.split())), list(range(300)))

    def test_fencing_tokens_grow_with_restarts_and_new_dlaunch_processes(self):
        worker = 'echo $DLAUNCH_FENCING_TOKEN >> tokens.$TORCHELASTIC_RESTART_COUNT; exit $((TORCHELASTIC_RESTART_COUNT < 1))'
        worlds = []
        for _ in range(3):
            # A round that fails is stopped as soon as one worker has: the others write first.
            run = self.run_dlaunch("--nproc-per-node=2", "--max-restarts=1", "sh", "-c", "trap '' TERM; " + worker)
            self.assertEqual(run.returncode, 0, run.stderr)
            for restarts in range(2):
                name = os.path.join(self.dir, f"tokens.{restarts}")
                with open(name, encoding="utf-8") as file:
                    worlds.append([int(token) for token in file.read().split()])
                os.remove(name)
        self.assertTrue(all(1 <= len(world) <= 2 and len(set(world)) == 1 for world in worlds), worlds)
        tokens = [world[0] for world in worlds]
        self.assertEqual(sorted(set(tokens)), tokens)

    def test_restarts_are_counted(self):
        done = self.run_dlaunch("--max-restarts=1", "sh", "-c", "exit 4")
        self.assertEqual(done.returncode, 4)
        self.assertIn("1 of 1 restarts were used", summary(done.stderr))


class Output(Launch):
    def test_lines_of_different_ranks_never_mix(self):
        script = 'i=0; while [ $i -lt 300 ]; do printf "%s" "$RANK-"; printf "%s\\n" "$RANK$RANK$RANK-$RANK"; i=$((i+1)); done'
        done = self.run_dlaunch("--nproc-per-node=4", "sh", "-c", script)
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 1200)
        self.assertEqual(set(lines), {f"{rank}-{rank}{rank}{rank}-{rank}" for rank in range(4)})

    def test_nothing_is_lost_at_the_end_and_a_last_line_without_end_gets_one(self):
        done = self.run_dlaunch("--nproc-per-node=2", "sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x; printf end")
        self.assertEqual(done.stdout, ("x" * 300000 + "end\n") * 2)

    def test_output_that_cannot_be_written_is_reported_once_and_a_failure(self):
        for workers, program, code in ((1, "echo hi", 1), (2, "echo hi", 1), (2, "for i in 1 2 3; do echo hi; done; exit 7", 7)):
            with self.subTest(workers=workers, program=program), open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([DLAUNCH, f"--nproc-per-node={workers}", "sh", "-c", program], cwd=self.dir, env=environment(), text=True,
                                      stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertEqual(done.stderr.count("cannot write to standard output: No space left on device"), 1, done.stderr)
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([DLAUNCH, "true"], cwd=self.dir, env=environment(), stdin=subprocess.DEVNULL, stdout=full,
                                  stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_a_reader_that_goes_away_does_not_stop_the_job(self):
        done = subprocess.run(["sh", "-c", f"{DLAUNCH} --nproc-per-node=2 sh -c 'yes | head -n 100000; echo done > done.$RANK' | head -n 1"],
                              cwd=self.dir, env=environment(), timeout=PATIENCE, capture_output=True, check=False)
        self.assertEqual(done.stdout, b"y\n")
        wait_until(lambda: os.path.exists(os.path.join(self.dir, "done.0")) and os.path.exists(os.path.join(self.dir, "done.1")),
                   "both workers came to their end")


class Signals(Launch):
    def test_sigterm_is_passed_on_and_decides_the_exit_code(self):
        job = self.start("--nproc-per-node=2", "sh", "-c", "trap 'echo got it > term.$RANK; exit 0' TERM; " + FAMILY)
        self.pids(6)
        job.send_signal(signal.SIGTERM)
        wait_until(lambda: os.path.exists(os.path.join(self.dir, "term.1")), "worker 1 got the signal")
        job.send_signal(signal.SIGTERM)  # the signal is repeated
        job.send_signal(signal.SIGINT)  # the daemons ignore it: do not wait for the grace time
        _, err = job.communicate(timeout=PATIENCE)
        self.assertEqual(job.returncode, 143, err)
        self.assertRegex(summary(err), "^dlaunch: stopped: node 0 .* was stopped by SIGTERM$")

    def test_processes_that_ignore_the_signal_are_killed_after_the_grace_time(self):
        job = self.start("--stop-timeout=1000,INT@0.2", "sh", "-c", "trap '' TERM INT; echo $$ > pid.0; while :; do sleep 1000; done")
        (worker,) = self.pids(1)
        job.send_signal(signal.SIGINT)
        job.communicate(timeout=PATIENCE)
        self.assertEqual(job.returncode, 130)
        self.assertFalse(alive(worker))

    def test_without_a_grace_time_no_worker_gets_the_signal(self):
        trap = "trap 'echo trapped > trapped' TERM INT; "
        for signo, times in ((signal.SIGTERM, "0"), (signal.SIGINT, "30,INT@0")):
            ended, err = self.end_by(signo, 1, f"--stop-timeout={times}", "sh", "-c", trap + "echo $$ > pid.0; while :; do sleep 0.01; done")
            self.assertEqual(ended, 128 + signo, err)
            self.assertIn(f"told to end by {signo.name}: killing the workers at once (--stop-timeout)", err)
        done = self.run_dlaunch("--nproc-per-node=2", "--stop-timeout=0", "--max-restarts=1", "sh", "-c",
                                trap + "[ $RANK = 1 ] && { until [ -e ready ]; do sleep 0.01; done; exit 3; }; echo > ready; while :; do sleep 0.01; done")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertFalse(os.path.exists(os.path.join(self.dir, "trapped")))

    def end_by(self, signo, workers, *arguments):
        """The exit code and output of a job that gets the signal once all its workers have written their pids."""
        job = self.start(*arguments)
        self.pids(workers)
        job.send_signal(signo)
        _, err = job.communicate(timeout=PATIENCE)
        for rank in range(workers):
            os.unlink(os.path.join(self.dir, f"pid.{rank}"))
        return job.returncode, err

    def test_notice_comes_before_the_end(self):
        for exits, code in (("exit 0", 0), ("exit 9", 143)):
            ended, err = self.end_by(signal.SIGTERM, 1, "--preempt-signal=SIGUSR1@50", "--max-restarts=3", "sh", "-c",
                                     f"trap 'echo saved > saved; {exits}' USR1; echo $$ > pid.0; while :; do sleep 0.01; done")
            self.assertEqual(ended, code, err)
            self.assertTrue(os.path.exists(os.path.join(self.dir, "saved")))
            self.assertIn("giving the workers notice by SIGUSR1; SIGTERM follows in 50 s", err)
            os.unlink(os.path.join(self.dir, "saved"))

    def test_an_end_that_all_survive_with_0_may_be_a_good_one(self):
        for exits, code in ((("exit 0", "exit 0"), 0), (("exit 0", "exit 143"), 143), (("exit 0", "exit 9"), 143)):
            ended, err = self.end_by(signal.SIGTERM, 2, "--preempt-ok", "--nproc-per-node=2", "sh", "-c",
                                     f"trap '[ $RANK = 0 ] && {exits[0]}; {exits[1]}' TERM; echo $$ > pid.$RANK; while :; do sleep 0.01; done")
            self.assertEqual(ended, code, err)
            good = "; all workers here returned 0 \\(--preempt-ok\\)" if code == 0 else ""
            self.assertRegex(summary(err), f"^dlaunch: stopped: node 0 .* was stopped by SIGTERM{good}$")
        ended, err = self.end_by(signal.SIGINT, 1, "--preempt-ok", "sh", "-c", "trap 'exit 0' INT; echo $$ > pid.0; while :; do sleep 0.01; done")
        self.assertEqual(ended, 130, err)

    def test_a_user_signal_passes_through_and_the_job_goes_on(self):
        ended, err = self.end_by(signal.SIGUSR1, 2, "--nproc-per-node=2", "sh", "-c",
                                 "trap 'exit 0' USR1; echo $$ > pid.$RANK; while :; do sleep 0.01; done")
        self.assertEqual(ended, 0, err)


class Orphans(Launch):
    def nothing_remains(self, pids):
        wait_until(lambda: not any(alive(pid) for pid in pids), f"none of {pids} is alive")

    def test_none_after_kill_9_of_dlaunch(self):
        for _ in range(5):
            job = self.start("--nproc-per-node=2", "sh", "-c", FAMILY)
            pids = self.pids(6)
            job.kill()
            self.nothing_remains(pids)
            for name in os.listdir(self.dir):
                os.unlink(os.path.join(self.dir, name))

    def test_none_after_kill_9_of_the_keeper(self):
        job = self.start("--nproc-per-node=2", "sh", "-c", FAMILY)
        pids = self.pids(6)
        os.kill(helpers_of(job)["keeper"], signal.SIGKILL)
        _, err = job.communicate(timeout=PATIENCE)
        self.assertEqual(job.returncode, 1)
        self.assertIn("the keeper process", err)
        self.nothing_remains(pids)

    def test_none_after_a_worker_failed(self):
        done = self.run_dlaunch("--nproc-per-node=2", "--stop-timeout=0.2", "sh", "-c",
                                "if [ $RANK = 1 ]; then sleep 1000 & echo $! > pid.1; exit 3; fi; " + FAMILY)
        self.assertEqual(done.returncode, 3)
        self.nothing_remains(self.pids(1))

    def test_a_daemon_is_stopped_when_the_job_is_done(self):
        done = self.run_dlaunch("sh", "-c", "setsid sleep 1000 & echo $! > pid.0; exit 0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.nothing_remains(self.pids(1))


if __name__ == "__main__":
    main()

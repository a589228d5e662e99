#!/usr/bin/env python3
"""Nothing remains of a job: no process, no control group, no file; whoever is killed, and whatever the workers do.

    DLAUNCH_BIN_DIR=build/bin [CLEANLINESS_REPEATS=1000] cleanliness_test.py [Class.test ...]
"""

import contextlib
import glob
import json
import os
import signal
import subprocess
import time
import unittest

from cleanliness_case import Cleanliness
from common import DLAUNCH, PATIENCE, children_of, helpers_of, main, marked, state_of, summary, wait_until


class Kills(Cleanliness):
    def after_kill_of(self, *victims):
        for _ in self.each_time():
            job = self.start_family("escaping")
            everyone = helpers_of(job)
            self.kill_at_once([everyone[victim] for victim in victims])
            self.nothing_remains(job)

    def test_of_the_agent(self):
        self.after_kill_of("agent")

    def test_of_the_keeper(self):
        self.after_kill_of("keeper")

    def test_of_the_agent_and_the_keeper_at_once(self):
        self.after_kill_of("agent", "keeper")

    def test_of_the_agent_and_the_guard_at_once(self):
        self.after_kill_of("agent", "guard")

    def test_of_the_guard_and_the_keeper_at_once(self):
        self.after_kill_of("guard", "keeper")

    def replace_guard(self, job):
        guard = helpers_of(job)["guard"]
        os.kill(guard, signal.SIGKILL)
        wait_until(lambda: helpers_of(job)["guard"] != guard, "another guard is there")

    def test_the_job_goes_on_without_its_guard(self):
        for _ in self.each_time():
            job = self.start_family("gentle", "--stop-timeout=0.1")
            guard = helpers_of(job)["guard"]
            self.replace_guard(job)
            os.kill(self.pid_of("worker", 1), signal.SIGKILL)
            err = self.nothing_remains(job)
            self.assertEqual(err.count(f"dl-guard (pid {guard}) was killed; dl-guard (pid "), 1, err)
            self.assertIn("rank 1", summary(err))
            self.assertEqual(job.returncode, 137)

    def test_of_the_guard_and_then_of_agent_and_keeper_at_once(self):
        """The workers' descendants have no other guard above them."""
        for _ in self.each_time():
            job = self.start_family("escaping")
            self.replace_guard(job)
            everyone = helpers_of(job)
            self.kill_at_once([everyone["agent"], everyone["keeper"]])
            self.nothing_remains(job)

    def test_of_several_guards(self):
        for _ in self.each_time():
            job = self.start_family()
            for _ in range(3):
                self.replace_guard(job)
            job.kill()
            self.nothing_remains(job)

    def test_of_the_agent_while_the_keeper_is_stopped(self):
        for _ in self.each_time():
            job = self.start_family("stubborn")
            everyone = helpers_of(job)
            os.kill(everyone["keeper"], signal.SIGSTOP)
            wait_until(lambda: state_of(everyone["keeper"]) == "T", "the keeper is stopped")
            job.kill()
            self.nothing_remains(job)

    def stop_agent(self, job):
        everyone = helpers_of(job)
        job.send_signal(signal.SIGSTOP)
        wait_until(lambda: state_of(job.pid) == "T", "the agent is stopped")
        return everyone

    def test_of_the_keeper_and_then_the_guard_while_the_agent_is_stopped(self):
        for _ in self.each_time():
            job = self.start_family()
            everyone = self.stop_agent(job)
            os.kill(everyone["keeper"], signal.SIGKILL)
            self.only_remain({everyone["agent"], everyone["guard"]})
            os.kill(everyone["guard"], signal.SIGKILL)
            self.only_remain({everyone["agent"]})
            job.send_signal(signal.SIGCONT)
            self.nothing_remains(job)
            self.assertEqual(job.returncode, 1)

    def test_of_keeper_and_agent_while_the_agent_is_stopped(self):
        for _ in self.each_time():
            job = self.start_family()
            everyone = self.stop_agent(job)
            os.kill(everyone["keeper"], signal.SIGKILL)
            self.only_remain({everyone["agent"], everyone["guard"]})
            job.kill()
            self.nothing_remains(job)

    def test_of_both_helpers_at_once_while_the_agent_is_stopped_until_it_goes_on(self):
        for _ in self.each_time():
            job = self.start_family()
            everyone = self.stop_agent(job)
            self.kill_at_once([everyone["guard"], everyone["keeper"]])
            job.send_signal(signal.SIGCONT)
            self.nothing_remains(job)
            self.assertEqual(job.returncode, 1)

    def test_the_keeper_is_replaced(self):
        """The round has failed; the next one is as safe as the first."""
        for number in self.each_time():
            job = self.start_family("stubborn", "--max-restarts=1", "--restart-backoff=0")
            everyone = helpers_of(job)
            first = set(self.all_processes()) - {job.pid}
            for name in glob.glob(os.path.join(self.place, "pid.*")):
                os.unlink(name)
            os.kill(everyone["keeper"], signal.SIGKILL)
            self.await_family()
            self.assertFalse(first & set(self.all_processes()), "the first round's processes have ended")
            after = helpers_of(job)
            self.kill_at_once([after[victim] for victim in (("agent", "keeper"), ("agent", "guard"), ("keeper",))[number % 3]])
            err = self.nothing_remains(job)
            self.assertIn(f"the keeper process {everyone['keeper']} (node 0", err)
            self.assertIn("(restart 1 of 1)", err)
            if job.returncode == 1:
                self.assertRegex(summary(err), rf"^dlaunch: failed: the keeper process {after['keeper']} \(node 0, host .*\) was killed")

    def test_of_all_three_at_once_until_the_next_start(self):
        for _ in self.each_time():
            if self.prefix:
                continue  # no process is left that could find them
            if len(self.containments) == 1:
                self.skipTest("no control groups here")
            job = self.start_family()
            self.kill_at_once(helpers_of(job).values())
            job.communicate(timeout=PATIENCE)
            subprocess.run([DLAUNCH, "true"], check=True, timeout=PATIENCE, env={**os.environ, "TMPDIR": self.tmp})
            self.nothing_remains(job)

    def test_of_the_first_child_at_once(self):
        for _ in self.each_time():
            job = self.start("--nproc-per-node=2", "sleep", "0.1")
            children = self.first_children(job)
            if children:
                os.kill(children[0], signal.SIGKILL)
            self.nothing_remains(job)
            self.assertIn(job.returncode, (0, 1))  # a guard may have forked the keeper already

    def test_interrupts_of_all_while_it_starts(self):
        """As by Ctrl-C: the helpers, which have no session of their own yet, get it too."""
        for _ in self.each_time():
            job = self.start("--nproc-per-node=2", "sleep", "1000", start_new_session=True)
            self.first_children(job)
            moment = time.monotonic() + self.random.uniform(0, 0.002)
            while time.monotonic() < moment:
                pass
            os.killpg(job.pid, signal.SIGINT)
            self.nothing_remains(job)
            self.assertIn(job.returncode, (130, -signal.SIGINT))

    @staticmethod
    def first_children(job):
        """As soon as dlaunch, and not what came before it in that process, has some."""
        while job.poll() is None:
            with contextlib.suppress(OSError), open(f"/proc/{job.pid}/comm", encoding="utf-8") as comm:
                if comm.read() == "dlaunch\n" and (children := children_of(job.pid)):
                    return children
        return []

    def test_of_a_worker(self):
        for _ in self.each_time():
            job = self.start_family("gentle", "--stop-timeout=0.1")
            os.kill(self.pid_of("worker", 1), signal.SIGKILL)
            self.assertIn("was killed by signal 9", self.nothing_remains(job))
            self.assertEqual(job.returncode, 137)

    def test_of_one_amid_a_tree_five_deep(self):
        for number in self.each_time():
            job = self.start_family("gentle", "--stop-timeout=0.1")
            os.kill(self.pid_of(f"deep{1 + number % 4}"), signal.SIGKILL)
            job.send_signal(signal.SIGTERM)
            self.nothing_remains(job)
            self.assertEqual(job.returncode, 143)

    def test_at_any_moment(self):
        """Also while it starts, and while it ends."""
        for _ in self.each_time():
            job = self.start("--nproc-per-node=3", "sh", "-c", "sleep 0.002 & setsid sh -c 'sleep 0.004; sleep 1000' & sleep 0.003")
            moment = time.monotonic() + self.random.uniform(0, 0.02)
            while time.monotonic() < moment:
                pass
            victims = [job.pid]
            for _ in range(self.random.randrange(2)):  # the helpers may not be there yet, or any more
                victims += [child for child in self.children_if_any(victims[-1])][:1]
            for pid in victims:
                self.kill_if_any(pid)
            _, err = job.communicate(timeout=PATIENCE)
            # A process may be killed before another one knows its files and cgroup: the next start removes them, but
            # not while a process that was killed has still to end, because it holds their lock until then.
            self.only_remain(set(), err)
            subprocess.run([*self.prefix, DLAUNCH, "true"], check=True, timeout=PATIENCE, env={**os.environ, "TMPDIR": self.tmp})
            self.nothing_remains(job)

    @staticmethod
    def children_if_any(pid):
        try:
            return children_of(pid)
        except OSError:
            return []


class Stops(Cleanliness):
    def test_workers_that_ignore_it(self):
        for _ in self.each_time():
            job = self.start_family("stubborn", "--stop-timeout=0.1")
            job.send_signal(signal.SIGTERM)
            self.nothing_remains(job)
            self.assertEqual(job.returncode, 143)

    def test_a_second_signal_ends_them_at_once(self):
        for _ in self.each_time():
            job = self.start_family("stubborn", "--stop-timeout=1000")
            job.send_signal(signal.SIGINT)
            wait_until(lambda: not os.path.exists(f"/proc/{job.pid}") or self.has_taken(job.pid, signal.SIGINT), "the first signal was taken")
            job.send_signal(signal.SIGINT)
            self.nothing_remains(job)
            self.assertEqual(job.returncode, 130)

    def test_between_two_rounds(self):
        for _ in self.each_time():
            job = self.start("--nproc-per-node=2", "--max-restarts=1", "--stop-timeout=0.1", "sh", "-c",
                             'if [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then [ $RANK = 0 ] && exec sh family.sh worker stubborn; '
                             'while [ ! -e "$DIR/pid.double.0" ] || [ ! -e "$DIR/pid.daemon.0" ] || [ ! -e "$DIR/pid.deep5.0" ]; do sleep 0.005; done; exit 1; fi; '
                             'for one in double daemon deep5 spinner; do read pid < "$DIR/pid.$one.0"; kill -0 $pid 2> /dev/null && exit 77; done; exit 0')
            err = self.nothing_remains(job)
            self.assertEqual(job.returncode, 0, err)

    # Leaves one process behind in each round, if LEAVERS names the rank. Every worker ends after all have left theirs.
    LEAVER = r"""
    round=$TORCHELASTIC_RESTART_COUNT
    for pid in $(cat "$DIR"/left.$((round - 1)).* 2> /dev/null); do kill -0 $pid 2> /dev/null && exit 77; done
    case $LEAVERS in *$RANK*)
      setsid sh -c 'echo $$ > "$0.tmp"; mv "$0.tmp" "$0"; exec sleep 1000' "$DIR/left.$round.$RANK" < /dev/null > /dev/null 2>&1 &
    esac
    for rank in $LEAVERS; do while [ ! -e "$DIR/left.$round.$rank" ]; do sleep 0.005; done; done
    [ $round = 2 ]
    """

    def leave_processes_behind(self, workers, leavers):
        """The last report of one round and the first of the next name the same number of processes."""
        for _ in self.each_time():
            job = self.start(f"--nproc-per-node={workers}", "--max-restarts=2", "--restart-backoff=0", "--stop-timeout=5",
                             "env", f"LEAVERS={leavers}", "sh", "-c", self.LEAVER)
            err = self.nothing_remains(job)
            self.assertEqual(job.returncode, 0, err)
            self.assertIn("the workers have ended but left", err)

    def test_left_behind_in_each_round_by_one_worker(self):
        self.leave_processes_behind(1, "0")

    def test_left_behind_in_each_round_by_one_of_two_workers(self):
        self.leave_processes_behind(2, "1")

    def test_left_behind_in_each_round_by_two_workers(self):
        self.leave_processes_behind(2, "0 1")

    @staticmethod
    def has_taken(pid, signo):
        with open(f"/proc/{pid}/status", encoding="utf-8") as status:
            pending = next(int(line.split()[1], 16) for line in status if line.startswith("ShdPnd"))
        return not pending & (1 << (signo - 1))


FREEZER = "/sys/fs/cgroup/freezer"  # of cgroup v1: what it holds is in state D, and not even SIGKILL ends it


@unittest.skipUnless(os.access(os.path.join(FREEZER, "tasks"), os.W_OK), "this machine has no freezer of cgroup v1")
class Unkillable(Cleanliness):
    def setUp(self):
        super().setUp()
        self.frozen = os.path.join(FREEZER, f"dlaunch_test.{os.getpid()}")
        os.mkdir(self.frozen)
        self.addCleanup(self.thaw)

    def set(self, file, word):
        with open(os.path.join(self.frozen, file), "w", encoding="utf-8") as control:
            control.write(word)

    def thaw(self):
        self.set("freezer.state", "THAWED")
        wait_until(lambda: not os.path.exists(self.frozen) or self.removed(), "the frozen process has ended")

    def removed(self):
        try:
            os.rmdir(self.frozen)
        except OSError:
            return False
        return True

    def test_it_is_named_and_not_waited_for_for_ever(self):
        self.begin([])
        job = self.start("--stop-timeout=0.1", f"--report={self.dir}/report.json", "sh", "-c", 'echo $$ > "$DIR/pid.worker.0"; exec sleep 1000')
        said = os.path.join(self.place, "pid.worker.0")
        wait_until(lambda: os.path.exists(said) and os.path.getsize(said) > 0, "the worker has begun")
        pid = self.pid_of("worker")
        self.set("tasks", str(pid))
        self.set("freezer.state", "FROZEN")
        wait_until(lambda: self.state() == "FROZEN", "it is frozen")
        job.send_signal(signal.SIGTERM)
        _, err = job.communicate(timeout=PATIENCE)
        who = rf"process {pid} \((sleep|sh); uninterruptible(, in \w+)?\) survived SIGKILL for 20 s"
        self.assertRegex(summary(err), rf"^dlaunch: failed: node 0 .*cannot end its workers: {who}$")
        self.assertEqual(job.returncode, 1)
        with open(f"{self.dir}/report.json", encoding="utf-8") as file:
            self.assertRegex(json.load(file)["cause"]["text"], who)
        self.assertEqual(marked(self.mark.encode()), [pid], "nothing but this remains")

    def state(self):
        with open(os.path.join(self.frozen, "freezer.state"), encoding="utf-8") as file:
            return file.read().strip()


if __name__ == "__main__":
    main()

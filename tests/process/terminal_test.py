#!/usr/bin/env python3
"""dlaunch in a terminal, under a shell with job control: its keys, and what happens when the terminal goes.

    DLAUNCH_BIN_DIR=build/bin terminal_test.py [Class.test ...]

The shell is bash on a pseudo terminal of its own; keys are typed, and the screen is read.
"""

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import time
import unittest
import uuid

from common import DLAUNCH, PATIENCE, main, marked, wait_until

CTRL_C, CTRL_Z, CTRL_BACKSLASH, CTRL_Q, CTRL_S = "\x03", "\x1a", "\x1c", "\x11", "\x13"


def state_of(pid):
    """As ps shows it; empty for a process that has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rpartition(")")[2].split()[0]
    except OSError:
        return ""


class Terminal(unittest.TestCase):
    def setUp(self):
        if not shutil.which("bash"):
            self.skipTest("no bash here")
        self.dir = tempfile.mkdtemp(prefix="dlaunch_terminal_test.")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.mark = uuid.uuid4().hex
        self.screen = ""
        self.shell, self.keys = pty.fork()
        if self.shell == 0:
            os.chdir(self.dir)
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"],
                       {"PATH": os.environ["PATH"], "TERM": "dumb", "PS1": "ready> ", "TERMINAL_MARK": self.mark, "D": DLAUNCH})
        self.read_until("ready> ")

    def tearDown(self):
        self.close_terminal()
        os.kill(self.shell, signal.SIGKILL)
        os.waitpid(self.shell, 0)
        remain = self.marked()
        for pid in remain:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def close_terminal(self):
        if self.keys >= 0:
            os.close(self.keys)
            self.keys = -1

    def type(self, text):
        os.write(self.keys, text.encode())

    def run_line(self, line):
        """Not the echo of the typed line, only what comes after it, is on the screen then."""
        self.type(line + "\n")
        self.read_until("\n")

    def read_until(self, text):
        """The screen up to and with the text, which is then forgotten."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.screen:
            self.assertLess(time.monotonic(), deadline, f"no {text!r} in {self.screen[-2000:]!r}")
            if select.select([self.keys], [], [], 0.1)[0]:
                self.screen += os.read(self.keys, 65536).decode(errors="replace").replace("\r\n", "\n")
        seen, self.screen = self.screen[:self.screen.index(text) + len(text)], self.screen[self.screen.index(text) + len(text):]
        return seen

    def marked(self):
        """Living processes that come from our shell, but the shell."""
        return [pid for pid in marked(self.mark.encode()) if pid != self.shell]

    def nothing_remains(self):
        wait_until(lambda: not self.marked(), "no process remains")

    def path(self, name):
        return os.path.join(self.dir, name)

    def wait_for(self, *names):
        for name in names:
            wait_until(lambda: os.path.exists(self.path(name)), f"{name} is there")

    def pids_in(self, *names):
        self.wait_for(*names)
        found = []
        for name in names:
            with open(self.path(name), encoding="utf-8") as file:
                found.append(int(file.read()))
        return found

    # Two workers, each with a daemon in a session of its own; all write their pids, and wait without starting anything:
    # a shell that has just begun to start something (vfork) can neither stop nor be sure to take a signal.
    FAMILY = ("""echo $$ > daemon.$RANK.tmp; mv daemon.$RANK.tmp daemon.$RANK; exec sleep 1000""",
              """trap "echo > got.$RANK; exit 0" INT TERM HUP QUIT; setsid sh daemon.sh & sleep 1000 & """
              """echo $$ > worker.$RANK.tmp; mv worker.$RANK.tmp worker.$RANK; wait""")
    PIDS = ("worker.0", "worker.1", "daemon.0", "daemon.1")

    def start_family(self, options="", after=""):
        for name, text in zip(("daemon.sh", "worker.sh"), self.FAMILY):
            with open(self.path(name), "w", encoding="utf-8") as file:
                file.write(text)
        self.run_line(f'$D --nproc-per-node=2 {options} sh worker.sh{after}')
        return self.pids_in(*self.PIDS)


class LastLines(Terminal):
    FAILS = "printf 'Traceback:\\n  line 1\\nKeyError: tokens\\n' >&2; exit 3"

    def screen_of(self, others):
        with open(self.path("fails.sh"), "w", encoding="utf-8") as file:
            file.write(f"if [ $RANK = 0 ]; then {others}; fi; while [ ! -e waits ]; do sleep 0.05; done; {self.FAILS}")
        self.run_line("$D --nproc-per-node=2 sh fails.sh; echo code $?.")
        return re.sub("\x1b\\[[0-9;]*m", "", self.read_until("code 3."))

    def test_that_stand_on_the_screen_are_not_shown_twice(self):
        screen = self.screen_of("echo > waits; exec sleep 1000")
        self.assertEqual(screen.count("line 1"), 1, screen)
        self.assertRegex(screen, r"dlaunch: failed: rank 1 \(.*\) exited with code 3: KeyError: tokens; ")

    def test_that_have_left_it_are_shown(self):
        screen = self.screen_of("trap 'seq 1000 1040; exit 0' TERM; echo > waits; while :; do sleep 0.05; done")
        self.assertEqual(screen.count("line 1"), 2, screen)
        self.assertIn("dlaunch: the last lines that rank 1 wrote to stderr:\n  | Traceback:\n  |   line 1\n  | KeyError: tokens\n", screen)


class Interrupt(Terminal):
    def test_once_is_gentle(self):
        self.start_family("--stop-timeout=1000", "; echo code $?.")
        self.type(CTRL_C)
        self.read_until("passing SIGINT on to the workers; they have 16 min 40 s to end (a second signal kills them)\n")
        self.wait_for("got.0", "got.1")
        self.read_until("code 130.")
        self.nothing_remains()

    def test_twice_is_at_once(self):
        self.run_line("""$D --stop-timeout=1000 sh -c 'trap "" INT; echo up; while :; do sleep 1000; done'; echo code $?.""")
        self.read_until("up\n")
        self.type(CTRL_C)
        self.read_until("passing SIGINT on")
        self.type(CTRL_C)
        self.read_until("code 130.")
        self.nothing_remains()

    def test_quit(self):
        self.run_line("$D sh -c 'echo up; exec sleep 1000'; echo code $?.")
        self.read_until("up\n")
        self.type(CTRL_BACKSLASH)
        self.read_until("code 131.")
        self.nothing_remains()

    def test_after_its_reader_has_ended(self):
        self.run_line("$D --nproc-per-node=2 yes | head -n 1; echo head has gone")
        # bash waits for the whole line of commands; head has ended, the job goes on.
        self.read_until("y\n")
        wait_until(lambda: not any(self.name_of(pid) == "head" for pid in self.marked()), "head has ended")
        self.type(CTRL_C)
        self.read_until("ready> ")
        self.nothing_remains()

    @staticmethod
    def name_of(pid):
        try:
            with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
                return file.read().strip()
        except OSError:
            return ""


class StoppedScreen(Terminal):
    """After Ctrl-S without Ctrl-Q."""

    SPEAK = "echo up; while [ ! -e go ]; do sleep 0.01; done; head -c 500000 /dev/zero | tr '\\0' x | fold -w 99; echo > spoken"

    def start_and_stop_the_screen(self, *options):
        self.run_line(f"""$D {' '.join(options)} --report=report.json sh -c "{self.SPEAK}"; echo code $?.""")
        self.read_until("up\n")
        self.type(CTRL_S)
        with open(self.path("go"), "w", encoding="utf-8"):
            pass
        self.wait_for("spoken")

    def test_the_job_ends(self):
        self.start_and_stop_the_screen("--output-timeout=0.2")
        self.wait_for("report.json")
        wait_until(lambda: not self.marked(), "dlaunch has ended")
        with open(self.path("report.json"), encoding="utf-8") as file:
            self.assertGreater(json.load(file)["dropped"]["stdout"]["lines"], 0)
        self.type(CTRL_Q)
        self.read_until("code 0.")

    def test_a_screen_that_goes_on_shows_all(self):
        self.start_and_stop_the_screen("--output-timeout=1000")
        self.type(CTRL_Q)
        self.assertEqual(self.read_until("code 0.").count("x"), 500000)


class Suspend(Terminal):
    def all_are(self, pids, states):
        wait_until(lambda: all(state_of(pid) in states for pid in pids), f"all of {pids} are in one of the states {states}")

    def stop(self, pids):
        self.type(CTRL_Z)
        self.read_until("Stopped")
        self.read_until("ready> ")
        self.all_are(pids, "T")

    def test_the_workers_stop_with_the_job_and_go_on_with_it(self):
        pids = self.start_family()
        for go_on in ("fg", "bg", "fg"):
            self.stop(pids)
            self.run_line(go_on)
            self.all_are(pids, "SRD")
            if go_on == "bg":
                self.run_line("fg")
            wait_until(lambda: os.tcgetpgrp(self.keys) != self.shell, "the job is in the foreground")
        self.type(CTRL_C)
        self.wait_for("got.0", "got.1")
        self.nothing_remains()

    def test_a_stopped_job_can_be_ended(self):
        pids = self.start_family("--stop-timeout=0.1")
        self.stop(pids)
        self.run_line("kill %1")
        self.read_until("was stopped by SIGTERM")
        self.nothing_remains()

    def test_a_stopped_job_can_be_killed(self):
        pids = self.start_family()
        self.stop(pids)
        self.run_line("kill -KILL %1")
        self.nothing_remains()

    def test_a_worker_stopped_by_hand_is_continued_to_end(self):
        pids = self.start_family("--stop-timeout=1000", "; echo code $?.")
        os.kill(pids[0], signal.SIGSTOP)
        self.all_are(pids[:1], "T")
        self.type(CTRL_C)
        self.wait_for("got.0", "got.1")
        self.read_until("code 130.")

    def test_an_orphaned_job_is_not_suspended(self):
        # In a session of its own dlaunch has no shell: the kernel would not stop it either.
        job = subprocess.Popen([DLAUNCH, "sh", "-c", "trap 'echo usr1; exit 0' USR1; sleep 1000 & echo up; wait"], start_new_session=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.assertEqual(job.stdout.readline(), "up\n")
        job.send_signal(signal.SIGTSTP)
        job.send_signal(signal.SIGUSR1)
        out, _ = job.communicate(timeout=PATIENCE)
        self.assertEqual((job.returncode, out), (0, "usr1\n"))

    def test_an_ignored_one_stays_ignored(self):
        ignore = lambda: signal.signal(signal.SIGTSTP, signal.SIG_IGN)
        find_agent = "p=$PPID; while [ $(cat /proc/$p/comm) != dlaunch ]; do p=$(ps -o ppid= -p $p | tr -d ' '); done; "
        done = subprocess.run([DLAUNCH, "sh", "-c", find_agent + "kill -TSTP $p; exec grep SigIgn /proc/self/status"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False, preexec_fn=ignore)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(int(done.stdout.split()[1], 16), 1 << (signal.SIGTSTP - 1))


class OwnTerminal(Terminal):
    """What a worker sees of the terminal."""

    def test_a_single_worker_writes_to_a_terminal(self):
        fcntl.ioctl(self.keys, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
        self.run_line("""$D sh -c 'test -t 0 && test -t 1 && test -t 2 && echo all are terminals; stty size <&1; printf "no newline"; exit 7'; echo code $?.""")
        self.read_until("all are terminals\n33 77\nno newline")
        self.assertIn("exited with code 7", self.read_until("code 7."))

    def test_two_workers_do_not_but_with_pty_they_do(self):
        self.run_line("$D --nproc-per-node=2 sh -c 'test -t 1 || test -t 2 || echo none'; echo code $?.")
        seen = self.read_until("code 0.")
        self.assertEqual((seen.count("[rank 0]"), seen.count("[rank 1]"), seen.count("none\n")), (1, 1, 2), seen)
        self.run_line("$D --pty --nproc-per-node=2 sh -c 'test -t 1 && test -t 2 && echo both'; echo code $?.")
        seen = self.read_until("code 0.")
        self.assertEqual((seen.count("[rank 0]"), seen.count("[rank 1]"), seen.count("both\n")), (1, 1, 2), seen)

    def test_redirected_output_is_no_terminal(self):
        self.run_line("$D --log-dir=logs -t1 sh -c 'test -t 1 || echo stdout is none; test -t 2 && echo stderr is one >&2'; echo code $?.")
        seen = self.read_until("code 0.")
        self.assertIn("stdout is none\n", seen)
        self.assertIn("stderr is one\n", seen)
        self.run_line("$D sh -c 'test -t 1 || echo stdout is none > /dev/tty 2> /dev/null || echo > seen' > out; echo code $?.")
        self.read_until("code 0.")
        self.wait_for("seen")  # and no worker has a controlling terminal

    def test_pty_gives_a_controlling_terminal(self):
        look = "test -t 1 && test -t 2 && exec 3<> /dev/tty && stty size <&3; ps -o tpgid=,pgid= -p $$; kill -9 $$"
        done = subprocess.run([DLAUNCH, "--pty", "sh", "-c", look], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False,
                              start_new_session=True)
        size, groups = done.stdout.splitlines()
        self.assertEqual(size, "24 80", done.stderr)
        self.assertEqual(*groups.split())
        self.assertIn("was killed by signal 9 (SIGKILL)", done.stderr)

    def test_another_size_of_the_window_is_passed_on(self):
        self.run_line("""$D --pty sh -c 'trap "stty size <&1; exit" WINCH; echo up; while :; do sleep 0.01; done'; echo code $?.""")
        self.read_until("up\n")
        fcntl.ioctl(self.keys, termios.TIOCSWINSZ, struct.pack("HHHH", 11, 55, 0, 0))
        self.read_until("11 55\n")
        self.read_until("code 0.")

    def test_the_words_of_one_that_fails_are_kept(self):
        self.run_line("""$D --report=report.json sh -c 'echo "what went wrong" >&2; exit 3'; echo code $?.""")
        self.read_until("what went wrong\n")
        self.read_until("code 3.")
        with open(self.path("report.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["cause"]["stderr"], "what went wrong")

    def test_all_of_a_long_output_arrives(self):
        self.run_line("$D sh -c 'head -c 3000000 /dev/zero | tr \\\\0 x | fold -w 99; echo; echo end of it'; echo code $?.")
        self.assertEqual(self.read_until("code 0.").count("x"), 3000000)


class Hangup(Terminal):
    def test_the_terminal_goes(self):
        self.start_family("--stop-timeout=1000")
        self.close_terminal()
        self.wait_for("got.0", "got.1")
        self.nothing_remains()

    def test_the_terminal_of_a_stopped_job_goes(self):
        pids = self.start_family("--stop-timeout=0.1")
        self.type(CTRL_Z)
        self.read_until("Stopped")
        wait_until(lambda: all(state_of(pid) == "T" for pid in pids), "all have stopped")
        self.close_terminal()
        self.nothing_remains()

    def test_the_terminal_of_a_chatty_job_goes(self):
        self.run_line("$D --nproc-per-node=2 yes")
        self.read_until("[rank 1]")
        self.close_terminal()
        self.nothing_remains()

    def test_with_nohup_the_job_stays(self):
        self.run_line("nohup $D sh -c 'echo > up; while [ ! -e go ]; do sleep 0.01; done; echo > done' > /dev/null 2>&1 < /dev/null &")
        self.wait_for("up")
        self.close_terminal()
        os.waitid(os.P_PID, self.shell, os.WEXITED | os.WNOWAIT)
        with open(self.path("go"), "w", encoding="utf-8"):
            pass
        self.wait_for("done")
        self.nothing_remains()

    def test_another_size_is_nothing(self):
        self.run_line("$D --nproc-per-node=2 sh -c 'echo > up.$RANK; while [ ! -e go ]; do sleep 0.01; done'; echo code $?.")
        self.wait_for("up.0", "up.1")
        for rows in (10, 40, 25):
            fcntl.ioctl(self.keys, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 80, 0, 0))
        with open(self.path("go"), "w", encoding="utf-8"):
            pass
        self.read_until("code 0.")


if __name__ == "__main__":
    main()

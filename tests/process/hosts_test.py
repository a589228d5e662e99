#!/usr/bin/env python3
"""One command, several hosts: dlaunch over a real ssh to real sshd, each in a network of its own.

    DLAUNCH_BIN_DIR=build/bin hosts_test.py [Class.test ...]

Every wait is for an event and has a deadline.
"""

import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

from common import BIN, DLAUNCH, PATIENCE, alive, environment, most_memory_of, wait_until

SSHD = "/usr/sbin/sshd"
NETWORK = "10.213.9"

# A worker that writes its pid and those of a child and of a daemon in a session of its own, and then stays.
FAMILY = """
setsid sh -c 'echo $$ > pid.'$RANK'.daemon; trap "" TERM HUP INT; while :; do sleep 1000; done' &
sleep 1000 & echo $! > pid.$RANK.child
echo $$ > pid.$RANK.tmp && mv pid.$RANK.tmp pid.$RANK
wait
"""

FAMILY_THAT_SPEAKS = "echo rank $RANK >&2\n" + FAMILY

# What a worker was given, to the byte.
DUMP = """
import json, os, sys
with open("dump." + os.environ["RANK"], "w") as file:
    json.dump([sys.argv[1:], dict(os.environ), os.getcwd(), os.readlink("/proc/self/fd/0")], file)
"""


def command_line(pid):
    """Its words; none if it has ended."""
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
            return file.read().split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return []


def everything(master):
    """The output to a terminal that no process has open any more."""
    text = b""
    while True:
        try:
            piece = os.read(master, 10000)
        except OSError:  # EIO is its end
            return text
        if not piece:
            return text
        text += piece


class Hosts(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="dlaunch_hosts_test.")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, text, mode=0o644):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.path(name), mode)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def start(self, *arguments, prefix=(), stdout=subprocess.PIPE, dlaunch=DLAUNCH, **variables):
        process = subprocess.Popen([*prefix, dlaunch, *arguments], cwd=self.dir, env={**environment(), **variables}, text=True,
                                   stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE)
        self.addCleanup(self.finish, process)
        return process

    @staticmethod
    def finish(process):
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()

    def run_job(self, *arguments, **variables):
        job = self.start(*arguments, **variables)
        out, err = job.communicate(timeout=PATIENCE)
        return subprocess.CompletedProcess(arguments, job.returncode, out, err)

    def pids(self, count):
        """The numbers that workers wrote into files named pid.*, once there are `count` of them."""
        def numbers():
            found = []
            for name in os.listdir(self.dir):
                text = "" if name.endswith(".tmp") or not name.startswith("pid.") else self.read(name).strip()
                if text:
                    found.append(int(text))
            return found
        wait_until(lambda: len(numbers()) >= count, f"{count} processes have written their pids")
        return numbers()

    def wait_for_lines(self, job, lines):
        """Reads the job's stderr until they appear; drops everything up to then."""
        text = ""
        def have_come():
            nonlocal text
            if select.select([job.stderr], [], [], 0)[0]:
                piece = os.read(job.stderr.fileno(), 1000).decode()
                self.assertTrue(piece, f"the job has ended without {lines}: {text}")
                text += piece
            return set(lines) <= set(text.split("\n")[:-1])
        wait_until(have_come, f"the job writes {lines}")

    def processes_of_the_job(self):
        """Every process that was started in the test's directory, and is still there: dlaunch, its keepers, ssh, workers."""
        found = []
        for name in os.listdir("/proc"):
            try:
                if name.isdigit() and os.readlink(f"/proc/{name}/cwd") == self.dir and alive(name):
                    found.append(int(name))
            except OSError:
                pass
        return found

    def nothing_remains(self):
        wait_until(lambda: not self.processes_of_the_job(), "nothing is left of the job")

    def one_failure(self, done, pattern, code=1):
        """The last line matches, and no other line reports a failure or a stop."""
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertRegex(done.stderr.splitlines()[-1], pattern)
        self.assertEqual(len(re.findall("failed: |stopped: ", done.stderr)), 1, done.stderr)


class OwnMachine(Hosts):
    """Without ssh: the hosts are names of this machine, or the way there is a script."""

    RSH = "#!/bin/sh\n# A remote shell that stays where it is: HOST COMMAND\nshift\nexec \"$@\"\n"

    def rsh(self, text=RSH):
        return "--ssh=" + self.write("rsh", text, 0o755)

    def elsewhere(self, *arguments, **variables):
        """Two hosts that are none of this machine's names; the script brings us there."""
        return self.run_job("--hosts=198.51.100.1,198.51.100.2", "--master-addr=127.0.0.1", *arguments, **variables)

    def test_names_of_this_machine_need_no_remote_shell(self):
        done = self.run_job("--hosts=localhost,127.0.0.2:3", "--ssh=false", "sh", "-c", "echo $RANK of $WORLD_SIZE on $GROUP_RANK")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()), ["0 of 4 on 0", "1 of 4 on 1", "2 of 4 on 1", "3 of 4 on 1"])
        self.assertEqual(done.stderr, "")

    def test_many_hosts(self):
        done = self.run_job("--hosts=127.0.0.[1-80]", "sh", "-c", "echo $RANK")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(map(int, done.stdout.split())), list(range(80)))

    def test_a_file_of_hosts(self):
        self.write("hosts", "# two\n127.0.0.1 slots=2\n127.0.0.2:1\n\n127.0.0.3\n127.0.0.3\n")
        script = ("sh", "-c", "echo $RANK $LOCAL_WORLD_SIZE")
        done = self.run_job("--hostfile=hosts", *script)
        self.assertEqual(sorted(done.stdout.splitlines()), ["0 2", "1 2", "2 1", "3 2", "4 2"], done.stderr)
        done = self.run_job("--nnodes=2", "--nproc-per-node=1", *script, DLAUNCH_HOSTFILE="hosts")
        self.assertEqual(sorted(done.stdout.splitlines()), ["0 1", "1 1"], done.stderr)
        self.write("hosts", "a\nb slot=2\n")
        self.one_line(self.run_job("--hostfile=hosts", "true"), 2, "dlaunch: hosts, line 2: 'slot=2' is not understood")
        self.one_line(self.run_job("--hostfile=missing", "true"), 2, "dlaunch: --hostfile: cannot read missing: No such file")

    def one_line(self, done, code, text):
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(text, done.stderr)

    def test_arguments_variables_and_directory_arrive_as_they_are(self):
        odd = ["", " ", "a b", "it's", "\"", "$HOME", "`id`", "$(id)", "\\", "\\n", "two\nlines", "*", "~", "#x", "-x", "--", "!", "ü\x01"]
        self.dir = os.path.join(self.dir, "a 'directory' $x")
        os.mkdir(self.dir)
        self.write("dump.py", DUMP)
        done = self.elsewhere(self.rsh().replace("--ssh=", "--ssh='").replace("'directory'", "'\\''directory'\\''") + "'",
                              "-x", "MINE", "-x", "NEW=a=b c", "--export=ODD", "dump.py", *odd,
                              MINE="1", ODD="it's\n$x ", NCCL_DEBUG="WARN", DLAUNCH_ROLE="trainer", PET_NNODES="2")
        self.assertEqual(done.returncode, 0, done.stderr)
        for rank in range(2):
            arguments, variables, directory, standard_input = json.loads(self.read(f"dump.{rank}"))
            self.assertEqual(arguments, odd)
            self.assertEqual(directory, self.dir)
            self.assertEqual(standard_input, "/dev/null")
            expected = {"MINE": "1", "NEW": "a=b c", "ODD": "it's\n$x ", "NCCL_DEBUG": "WARN", "ROLE_NAME": "trainer"}
            self.assertEqual({name: variables.get(name) for name in expected}, expected)

    def test_variables_that_hold_for_this_host_do_not_go_along(self):
        clean = self.RSH.replace("exec", "exec env -i HOME=/")
        done = self.elsewhere(self.rsh(clean), "sh", "-c", "env > env.$RANK", CUDA_VISIBLE_DEVICES="1", NCCL_DEBUG="WARN", OTHER="x",
                              DLAUNCH_HOSTS="198.51.100.1,198.51.100.2", LD_LIBRARY_PATH="/nowhere")
        self.assertEqual(done.returncode, 0, done.stderr)
        names = {line.partition("=")[0] for line in self.read("env.1").splitlines()}
        self.assertLessEqual({"PATH", "NCCL_DEBUG", "LD_LIBRARY_PATH", "RANK"}, names)
        self.assertEqual(names & {"CUDA_VISIBLE_DEVICES", "OTHER", "DLAUNCH_HOSTS"}, set())

    def test_an_export_is_for_one_machine_too(self):
        done = self.run_job("-x", "A=1", "--export", "B=two words", "sh", "-c", "echo $A $B")
        self.assertEqual(done.stdout, "1 two words\n", done.stderr)

    def test_output_of_the_remote_shell_is_hidden(self):
        noisy = "#!/bin/sh\necho welcome; echo warning >&2\nshift\nexec \"$@\"\n"
        done = self.elsewhere(self.rsh(noisy), "sh", "-c", "echo out $RANK; echo err $RANK >&2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()), ["out 0", "out 1"])
        self.assertEqual(sorted(done.stderr.splitlines()), ["err 0", "err 1"])

    def test_a_way_that_fails_is_quoted(self):
        done = self.elsewhere(self.rsh("#!/bin/sh\n[ $1 = 198.51.100.2 ] && { echo no way >&2; exit 4; }\nshift\nexec \"$@\"\n"), "true")
        self.one_failure(done, r"^dlaunch: failed: cannot start on host 198.51.100.2 \(node 1\): \S+/rsh exited with code 4; its last line: no way$")
        done = self.run_job("--hosts=198.51.100.1", "--ssh=/no/such/ssh", "true")
        self.one_line(done, 1, "cannot start '/no/such/ssh': No such file or directory; install it")
        self.nothing_remains()

    def test_a_missing_program_is_reported_once(self):
        self.one_failure(self.elsewhere(self.rsh(), "./missing"),
                         r"^dlaunch: failed: cannot start on host 198.51.100.[12] \(node [01]\): cannot start './missing': No such file")
        self.nothing_remains()

    def test_a_mistake_that_only_a_host_can_see_is_one_of_the_command_line(self):
        done = self.elsewhere(self.rsh(), "--virtual-local-rank", "--nproc-per-node=2", "-x", "CUDA_VISIBLE_DEVICES=4", "true")
        self.one_failure(done, "CUDA_VISIBLE_DEVICES names 1 GPU", 2)

    def test_a_port_in_use_is_node_zeros_trouble(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = f"--master-port={probe.getsockname()[1]}"
        first = self.start("--hosts=127.0.0.1,127.0.0.2", port, "--stop-timeout=0.5", "sh", "-c", FAMILY)
        self.pids(6)
        done = self.run_job("--hosts=127.0.0.1,127.0.0.2", port, "true")
        self.one_failure(done, r"cannot start on host 127.0.0.1 \(node 0\): cannot listen .*in use by process \d+ \(.*\); choose a free port with --master-port")
        first.kill()
        self.nothing_remains()

    # More than a pipe and the first dlaunch take, less than what makes a worker wait.
    SPEAK = "yes 0123456789 | head -n 80000"
    LINES = 3 * 80000

    def test_a_reader_that_stops_does_not_keep_the_job(self):
        job = self.start("--hosts=127.0.0.[1-3]", "--output-timeout=0.2", "--report=end.json", "sh", "-c", self.SPEAK)
        self.assertEqual(job.wait(PATIENCE), 0)
        dropped = json.loads(self.read("end.json"))["dropped"]
        self.assertEqual(list(dropped), ["stdout"])
        whole = job.stdout.read().splitlines().count("0123456789")
        # A line that was cut just before its end looks whole, and counts as dropped.
        self.assertIn(whole + dropped["stdout"]["lines"] - self.LINES, range(4))
        self.assertRegex(job.stderr.read(), rf"(?m)^dlaunch: dropped {dropped['stdout']['lines']} lines .*its reader took nothing for 200 ms \(--output-timeout\)\n$")
        self.nothing_remains()

    def test_a_reader_that_stops_in_front_of_the_agents_last_words(self):
        job = self.start("--hosts=127.0.0.[1-3]", "--output-timeout=0.2", "--report=end.json", "sh", "-c", f"({self.SPEAK}) >&2; exit 7")
        self.assertEqual(job.wait(PATIENCE), 7)
        report = json.loads(self.read("end.json"))
        self.assertEqual((report["exit_code"], list(report["dropped"])), (7, ["stderr"]))
        self.nothing_remains()

    def test_after_two_interrupts_no_reader_is_waited_for(self):
        job = self.start("--hosts=127.0.0.[1-3]", "--output-timeout=1000", "sh", "-c", "trap '' INT; echo > up.$RANK; yes")
        wait_until(lambda: all(os.path.exists(self.path(f"up.{rank}")) for rank in range(3)), "all run")
        job.send_signal(signal.SIGINT)
        self.wait_for_lines(job, ["dlaunch: passing SIGINT on to the workers; they have 30 s to end (a second signal kills them)"])
        job.send_signal(signal.SIGINT)
        self.assertEqual(job.wait(PATIENCE), 130)
        self.nothing_remains()

    def test_a_slow_reader_gets_all(self):
        job = self.start("--hosts=127.0.0.[1-3]", "--output-timeout=1000", "sh", "-c", self.SPEAK + "; echo > spoken.$RANK")
        wait_until(lambda: all(os.path.exists(self.path(f"spoken.{rank}")) for rank in range(3)), "all have spoken")
        self.assertEqual(job.stdout.read().count("\n"), self.LINES)
        self.assertEqual(job.wait(PATIENCE), 0)

    def test_one_report_for_the_job(self):
        script = "[ $RANK = 2 ] && { echo boom >&2; exit 7; }; exec sleep 1000"
        done = self.run_job("--hosts=127.0.0.[1-4]", "--report=end.json", "sh", "-c", script)
        self.one_failure(done, r"^dlaunch: failed: rank 2 \(local rank 0, node 2, host 127.0.0.3, pid \d+\) exited with code 7; not restarted", 7)
        self.assertEqual(done.stderr.count("  | boom"), 1, done.stderr)
        report = json.loads(self.read("end.json"))
        self.assertEqual((report["exit_code"], report["cause"]["rank"], report["node_rank"]), (7, 2, 0))
        self.assertEqual([node["host"] for node in report["nodes"]], [f"127.0.0.{n}" for n in range(1, 5)])
        done = self.run_job("--hosts=127.0.0.1,127.0.0.2", "--report=end.json", "true")
        self.assertEqual((done.returncode, json.loads(self.read("end.json"))["failed"]), (0, False))
        done = self.run_job("--hosts=127.0.0.1,127.0.0.2", "--report=end.json", "./missing")
        self.assertIn("cannot start './missing'", json.loads(self.read("end.json"))["cause"]["text"])

    def test_all_restart_together(self):
        script = (": > seen.$RANK.$TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0; [ $RANK = 0 ] && exec sleep 1000; "
                  "while [ ! -e seen.0.0 ]; do sleep 0.005; done; exit 6")
        done = self.run_job("--hosts=127.0.0.1,127.0.0.2", "--max-restarts=1", "sh", "-c", script)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(re.findall("restart 1 of 1", done.stderr)), 1, done.stderr)

    def test_on_a_terminal_lines_have_their_ranks(self):
        for variables, prefix in (({"NO_COLOR": "1"}, r"\[rank %d\]: "), ({"NO_COLOR": ""}, "\x1b\\[[0-9;]+m\\[rank %d\\]: \x1b\\[0m")):
            master, slave = pty.openpty()
            job = self.start("--hosts=127.0.0.1,127.0.0.2", "sh", "-c", "echo here", stdout=slave, **variables)
            os.close(slave)
            _, err = job.communicate(timeout=PATIENCE)
            shown = everything(master).decode()
            os.close(master)
            self.assertEqual(job.returncode, 0, err)
            for rank in range(2):
                self.assertRegex(shown, prefix % rank + "here\r\n")

    def test_much_output_comes_whole_and_in_bounded_memory(self):
        line = "x" * 200
        quiet = self.start("--hosts=127.0.0.[1-3]", "true")
        self.assertEqual(quiet.stdout.read(), "")
        err = quiet.stderr.read()
        without_output = most_memory_of(quiet)
        self.assertEqual(quiet.returncode, 0, err)
        script = f"i=0; while [ $i -lt 100 ]; do echo $RANK {line}; i=$((i+1)); done; yes $RANK {line} | head -n 250000"
        job = self.start("--hosts=127.0.0.[1-3]", "sh", "-c", script)
        counts = {}
        for text in job.stdout:
            counts[text] = counts.get(text, 0) + 1
        err = job.stderr.read()
        with_output = most_memory_of(job)
        self.assertEqual(job.returncode, 0, err)
        self.assertEqual(counts, {f"{rank} {line}\n": 250100 for rank in range(3)})
        self.assertLess(with_output - without_output, 64 * 1024, "KiB more than without output: far less than the 150 MB that were written")

    def test_signals_reach_every_host(self):
        job = self.start("--hosts=127.0.0.[1-3]", "sh", "-c", "trap 'echo > usr1.$RANK' USR1; trap 'echo > end.$RANK; exit 0' INT TERM; "
                         "echo $$ > pid.$RANK; while :; do sleep 0.01; done")
        self.pids(3)
        job.send_signal(signal.SIGUSR1)
        wait_until(lambda: all(os.path.exists(self.path(f"usr1.{rank}")) for rank in range(3)), "all got SIGUSR1")
        self.assertIsNone(job.poll())
        job.send_signal(signal.SIGINT)
        _, err = job.communicate(timeout=PATIENCE)
        self.assertEqual(job.returncode, 130, err)
        self.assertTrue(all(os.path.exists(self.path(f"end.{rank}")) for rank in range(3)), err)
        self.assertRegex(err.splitlines()[-1], r"^dlaunch: stopped: node \d \(host 127.0.0.\d\) was stopped by SIGINT$")
        self.nothing_remains()

    def test_a_second_signal_ends_it_at_once(self):
        job = self.start("--hosts=127.0.0.[1-2]", "sh", "-c", FAMILY)
        self.pids(6)
        job.send_signal(signal.SIGTERM)
        self.assertIn("passing SIGTERM on", job.stderr.readline())
        job.send_signal(signal.SIGINT)
        job.communicate(timeout=PATIENCE)
        self.assertEqual(job.returncode, 143)
        self.nothing_remains()

    def test_a_signal_while_it_starts_ends_it(self):
        job = self.start("--hosts=198.51.100.1,198.51.100.2", self.rsh("#!/bin/sh\necho $$ > pid.$1\nexec sleep 1000\n"), "true")
        self.pids(2)
        job.send_signal(signal.SIGTERM)
        out, err = job.communicate(timeout=PATIENCE)
        self.one_failure(subprocess.CompletedProcess((), job.returncode, out, err),
                         r"^dlaunch: stopped: node 0 \(host 198.51.100.1\) was stopped by SIGTERM$", 143)
        self.nothing_remains()

    def test_a_host_that_never_answers_is_given_up(self):
        silent = self.rsh("#!/bin/sh\n[ $1 = 198.51.100.2 ] && exec sleep 1000\nshift\nexec \"$@\"\n")
        done = self.elsewhere(silent, "--join-timeout=0.5", "true")
        # Node 0 and we have the same time; whoever is first.
        self.one_failure(done, r"^dlaunch: failed: cannot start on host 198.51.100.2 \(node 1\): (it did not start within 500 ms|it did not answer)")
        self.nothing_remains()

    def test_kill_9_leaves_nothing_anywhere(self):
        for _ in range(3):
            job = self.start("--hosts=127.0.0.[1-2]", "--stop-timeout=0.5", "sh", "-c", FAMILY)
            self.pids(6)
            job.kill()
            self.nothing_remains()
            for name in os.listdir(self.dir):
                os.unlink(self.path(name))

    def test_a_dry_run_starts_nothing(self):
        done = self.run_job("--hosts=localhost,198.51.100.1", "--master-addr=m", "--dry-run", "--nproc-per-node=2", "sh", "-c", "echo > started")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"node 1, 198.51.100.1:\n  command: ssh -o BatchMode=yes .* 198.51.100.1 /bin/sh\n")
        self.assertRegex(done.stdout, r"    exec \S+/dlaunch --lifeline=\S+ .*--node-rank=1 .*-- sh -c 'echo > started'\n")
        for rank in range(4):
            self.assertIn(f"  rank {rank}:\n    command: sh -c 'echo > started'\n", done.stdout)
        self.assertRegex(done.stdout, r"\n  job hosts-\w+: node 1 of 2 \(198\.51\.100\.1\), 2 workers, store at m:\d+\n")
        self.assertEqual(os.listdir(self.dir), [])


class OverSsh(Hosts):
    """Three hosts on one network, with a real sshd on the second and third; dlaunch runs on the first."""

    COUNT = 3

    def setUp(self):
        super().setUp()
        for program in (SSHD, "/usr/bin/ssh", "/usr/bin/ssh-keygen"):
            if not os.path.exists(program):
                self.skipTest(f"{program} is not here (openssh-server, openssh-client)")
        self.make_network()
        for name in ("host_key", "client_key", "other_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.path(name)], check=True, stdin=subprocess.DEVNULL)
        host_key = self.read("host_key.pub")
        self.write("known_hosts", "".join(f"{self.address(i)} {host_key}" for i in range(self.COUNT)))
        self.write("ssh_config", f"Host *\n  IdentityFile {self.path('client_key')}\n  IdentitiesOnly yes\n"
                   f"  UserKnownHostsFile {self.path('known_hosts')}\n  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n")
        self.ssh = f"--ssh=ssh -F {self.path('ssh_config')}"
        os.makedirs("/run/sshd", exist_ok=True)  # which Debian's sshd wants to find
        self.work = self.path("work")
        os.mkdir(self.work)
        self.daemons = {i: self.start_sshd(i) for i in (1, 2)}
        self.top, self.dir = self.dir, self.work

    @staticmethod
    def address(i):
        return f"{NETWORK}.{i + 1}"

    def make_network(self):
        tag = f"dh{os.getpid() % 100000}"
        self.names = [f"{tag}{letter}" for letter in "abc"]
        switch = f"{tag}s"
        lines = [f"ip netns add {switch}", f"ip -n {switch} link add {tag}br type bridge", f"ip -n {switch} link set {tag}br up"]
        for i, name in enumerate(self.names):
            lines += [f"ip netns add {name}", f"ip link add {tag}v{i} netns {name} type veth peer name {tag}p{i} netns {switch}",
                      f"ip -n {switch} link set {tag}p{i} master {tag}br up", f"ip -n {name} addr add {self.address(i)}/24 dev {tag}v{i}",
                      f"ip -n {name} link set {tag}v{i} up", f"ip -n {name} link set lo up"]
        self.addCleanup(lambda: [subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False) for name in [*self.names, switch]])
        made = subprocess.run(["sh", "-c", " && ".join(lines)], capture_output=True, text=True, check=False)
        if made.returncode != 0:
            self.skipTest(f"network namespaces cannot be made here: {made.stderr.strip()}")

    def start_sshd(self, i, key="client_key", more="", before="true"):
        config = self.write(f"sshd_config.{i}", f"ListenAddress {self.address(i)}\nPort 22\nHostKey {self.path('host_key')}\n"
                            f"AuthorizedKeysFile {self.path(key)}.pub\nStrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin prohibit-password\n"
                            f"PasswordAuthentication no\nKbdInteractiveAuthentication no\n{more}\n")
        # `ip netns exec` gives it mounts of its own.
        daemon = subprocess.Popen(["ip", "netns", "exec", self.names[i], "sh", "-c", f"{before} && exec {SSHD} -D -e -f '{config}'"],
                                  cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.finish, daemon)
        for line in daemon.stderr:
            if "Server listening" in line:
                return daemon
        raise AssertionError("sshd did not start")

    def restart_sshd(self, i, **how):
        self.finish(self.daemons[i])
        self.dir, work = self.top, self.dir
        self.daemons[i] = self.start_sshd(i, **how)
        self.dir = work

    def start(self, *arguments, prefix=(), hosts=f"{NETWORK}.[1-3]", **others):
        return super().start(f"--hosts={hosts}", self.ssh, *arguments, prefix=("ip", "netns", "exec", self.names[0], *prefix), **others)

    def test_one_command_starts_all(self):
        done = self.run_job("--nproc-per-node=2", os.path.join(BIN, "rank_sum"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(re.findall(r"rank (\d) of 6", done.stdout)), [str(rank) for rank in range(6)])
        self.assertEqual(len(re.findall("sum of ranks = 15", done.stdout)), 6)
        done = self.run_job("sh", "-c", "echo $RANK $(ip -4 -o addr show scope global | grep -o 'inet [0-9.]*')")
        self.assertEqual(sorted(done.stdout.splitlines()), [f"{i} inet {self.address(i)}" for i in range(3)], done.stderr)
        # The port is reached from outside, and the job has no secret.
        self.assertRegex(done.stderr, r"\Adlaunch: no secret: .*; set a secret with --token-file=FILE on every node\n\Z")

    def test_the_first_host_may_be_elsewhere(self):
        done = self.run_job("sh", "-c", "[ $RANK = 1 ] && exit 5; exec sleep 1000", hosts=f"{self.address(2)},root@{self.address(1)}")
        self.one_failure(done, rf"^dlaunch: failed: rank 1 \(local rank 0, node 1, host {self.address(1)}, pid \d+\) exited with code 5;", 5)
        self.nothing_remains()

    def test_arguments_and_variables_arrive_as_they_are(self):
        odd = ["", "a b", "it's", "\"$HOME\" `id` \\ \\n", "two\nlines", "*", "~", "-x", "!"]
        self.write("dump.py", DUMP)
        done = self.run_job("-x", "ODD", "dump.py", *odd, ODD="it's\n$x ", NCCL_DEBUG="WARN", OTHER="here")
        self.assertEqual(done.returncode, 0, done.stderr)
        for rank in range(3):
            arguments, variables, directory, standard_input = json.loads(self.read(f"dump.{rank}"))
            self.assertEqual((arguments, directory, standard_input), (odd, self.dir, "/dev/null"))
            self.assertEqual((variables["ODD"], variables["NCCL_DEBUG"]), ("it's\n$x ", "WARN"))
            self.assertEqual(variables.get("OTHER"), "here" if rank == 0 else None)

    def test_a_failure_anywhere_ends_all_and_is_reported_once(self):
        done = self.run_job("--report=end.json", "sh", "-c", "[ $RANK = 2 ] && { echo boom >&2; exit 255; }; exec sleep 1000")
        self.one_failure(done, rf"^dlaunch: failed: rank 2 \(local rank 0, node 2, host {self.address(2)}, pid \d+\) exited with code 255", 255)
        self.assertEqual(done.stderr.count("  | boom"), 1)
        self.assertEqual(json.loads(self.read("end.json"))["cause"]["host"], self.address(2))
        self.nothing_remains()

    def test_ctrl_c_reaches_every_host(self):
        job = self.start("sh", "-c", "trap 'echo > end.$RANK; exit 0' INT TERM; echo rank $RANK >&2; while :; do sleep 0.01; done")
        self.wait_for_lines(job, [f"rank {rank}" for rank in range(3)])
        job.send_signal(signal.SIGINT)
        _, err = job.communicate(timeout=PATIENCE)
        self.assertEqual(job.returncode, 130, err)
        self.assertTrue(all(os.path.exists(self.path(f"end.{rank}")) for rank in range(3)), err)
        self.assertRegex(err.splitlines()[-1], "^dlaunch: stopped: node .* was stopped by SIGINT$")
        self.nothing_remains()

    def test_kill_9_leaves_nothing_on_any_host(self):
        job = self.start("--stop-timeout=0.5", "sh", "-c", FAMILY)
        self.pids(9)
        job.kill()
        self.nothing_remains()

    def ssh_to(self, i):
        """The pid of this job's ssh client for a host."""
        (pid,) = [pid for pid in self.processes_of_the_job() if command_line(pid)[:1] == ["ssh"] and self.address(i) in command_line(pid)]
        return pid

    def cut(self, job, i, rank, processes):
        """The connection to a host, once all runs; what its rank wrote has come to us, so dlaunch knows that it is up."""
        self.pids(processes)
        self.wait_for_lines(job, [f"rank {rank}"])
        os.kill(self.ssh_to(i), signal.SIGKILL)

    def test_a_cut_connection_stops_that_host_and_the_job(self):
        job = self.start("--stop-timeout=0.5", "sh", "-c", FAMILY_THAT_SPEAKS)
        self.cut(job, 1, rank=1, processes=9)
        out, err = job.communicate(timeout=PATIENCE)
        self.one_failure(subprocess.CompletedProcess((), job.returncode, out, err),
                         rf"^dlaunch: failed: node 1 \(host {self.address(1)}\) was lost: ")
        self.nothing_remains()

    def test_a_host_that_loses_its_agent_ends_the_job(self):
        job = self.start("--stop-timeout=0.5", "sh", "-c", FAMILY)
        self.pids(9)
        agents = []
        def is_one():
            agents[:] = [pid for pid in self.processes_of_the_job() if "--node-rank=2" in command_line(pid)]
            return len(agents) == 1
        wait_until(is_one, "its helpers are not there yet, or have names of their own")
        os.kill(agents[0], signal.SIGKILL)
        out, err = job.communicate(timeout=PATIENCE)
        self.one_failure(subprocess.CompletedProcess((), job.returncode, out, err),
                         rf"^dlaunch: failed: node 2 \(host {self.address(2)}\) was lost: ")
        self.nothing_remains()

    def test_losing_node_zero_elsewhere_ends_the_job(self):
        job = self.start("--stop-timeout=0.5", "sh", "-c", FAMILY_THAT_SPEAKS, hosts=f"{self.address(1)},{self.address(2)}")
        self.cut(job, 1, rank=0, processes=6)
        out, err = job.communicate(timeout=PATIENCE)
        self.one_failure(subprocess.CompletedProcess((), job.returncode, out, err),
                         rf"^dlaunch: failed: node 0 \(host {self.address(1)}\) was lost: its dlaunch was killed, or the connection")
        self.nothing_remains()

    def test_no_sshd(self):
        self.finish(self.daemons[2])
        self.one_failure(self.run_job("sh", "-c", FAMILY),
                         rf"^dlaunch: failed: cannot start on host {self.address(2)} \(node 2\): no ssh server listens there \(connection refused\); start sshd")
        self.nothing_remains()

    def test_no_such_host(self):
        done = self.run_job("sh", "-c", FAMILY, hosts=f"{self.address(0)},{self.address(1)},no-such-host.invalid")
        self.one_failure(done, r"^dlaunch: failed: cannot start on host no-such-host.invalid \(node 2\): there is no host with this name; check")
        self.nothing_remains()

    def test_an_address_without_a_server(self):
        done = self.run_job("sh", "-c", FAMILY, hosts=f"{self.address(0)},{NETWORK}.77")
        self.one_failure(done, rf"^dlaunch: failed: cannot start on host {NETWORK}.77 \(node 1\): it (cannot be reached|does not answer).*; check")
        self.nothing_remains()

    def test_a_refused_key(self):
        self.restart_sshd(1, key="other_key")
        self.one_failure(self.run_job("sh", "-c", FAMILY),
                         rf"^dlaunch: failed: cannot start on host {self.address(1)} \(node 1\): its ssh server refused the key; 'ssh {self.address(1)} true' must")
        self.nothing_remains()

    def test_a_host_key_that_is_not_known(self):
        with open(os.path.join(self.top, "known_hosts"), "w", encoding="utf-8"):
            pass
        self.one_failure(self.run_job("true"), r"its ssh host key is not known here; connect once by hand")

    def test_no_dlaunch_there(self):
        folder = os.path.join(self.top, "bin")
        os.mkdir(folder)
        dlaunch = shutil.copy(DLAUNCH, folder)
        self.restart_sshd(2, before=f"mount -t tmpfs none '{folder}'")
        self.one_failure(self.run_job("true", dlaunch=dlaunch),
                         rf"^dlaunch: failed: cannot start on host {self.address(2)} \(node 2\): there is no dlaunch at {dlaunch}; install it")
        self.nothing_remains()

    def test_no_such_directory_there(self):
        self.restart_sshd(1, before=f"mount -t tmpfs none '{self.dir}'")
        self.dir = self.path("here")
        os.mkdir(self.dir)
        self.one_failure(self.run_job("true"),
                         rf"^dlaunch: failed: cannot start on host {self.address(1)} \(node 1\): there is no directory {self.dir}; start dlaunch in one")

    def test_a_shared_connection_is_not_waited_for(self):
        with open(os.path.join(self.top, "ssh_config"), "a", encoding="utf-8") as config:
            config.write(f"  ControlMaster auto\n  ControlPath {self.top}/%h\n  ControlPersist 600\n")
        for i in (1, 2):
            self.addCleanup(subprocess.run, ["ssh", "-F", os.path.join(self.top, "ssh_config"), "-O", "exit", self.address(i)], capture_output=True, check=False)
        for _ in range(2):
            done = self.run_job("sh", "-c", "echo $RANK")
            self.assertEqual((done.returncode, sorted(done.stdout.split())), (0, ["0", "1", "2"]), done.stderr)

    def test_a_login_shell_that_talks(self):
        self.restart_sshd(1, more='ForceCommand sh -c "echo welcome; echo warning >&2; exec $SSH_ORIGINAL_COMMAND"')
        done = self.run_job("sh", "-c", "echo $RANK", DLAUNCH_TOKEN="s3cret")
        # On a busy machine a node may be waited for.
        err = "".join(line for line in done.stderr.splitlines(True) if not line.startswith("dlaunch: waiting for "))
        self.assertEqual((done.returncode, sorted(done.stdout.split()), err), (0, ["0", "1", "2"], ""))


if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=1)
    skipped_all = program.result.skipped and len(program.result.skipped) == program.result.testsRun
    sys.exit(77 if skipped_all else not program.result.wasSuccessful())

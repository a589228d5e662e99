"""What tests over ssh begin with: hosts, each with a network of its own, and a real sshd on each but the first."""

import os
import string
import subprocess

from common import command_line
from hosts_case import Hosts

SSHD = "/usr/sbin/sshd"

NETWORK = "10.213.9"


class Ssh(Hosts):
    """Hosts on one network, with a real sshd on each but the first, where dlaunch runs."""

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
        self.daemons = {i: self.start_sshd(i) for i in range(1, self.COUNT)}
        self.top, self.dir = self.dir, self.work

    @staticmethod
    def address(i):
        return f"{NETWORK}.{i + 1}"

    def make_network(self):
        tag = f"dh{os.getpid() % 100000}"
        self.names = [f"{tag}{letter}" for letter in string.ascii_lowercase[:self.COUNT]]
        switch = f"{tag}switch"
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

    def start(self, *arguments, prefix=(), hosts=None, **others):
        hosts = hosts or f"{NETWORK}.[1-{self.COUNT}]"
        return super().start(f"--hosts={hosts}", self.ssh, *arguments, prefix=("ip", "netns", "exec", self.names[0], *prefix), **others)

    def ssh_to(self, i):
        """The pid of this job's ssh client for a host."""
        (pid,) = [pid for pid in self.processes_of_the_job() if command_line(pid)[:1] == ["ssh"] and self.address(i) in command_line(pid)]
        return pid

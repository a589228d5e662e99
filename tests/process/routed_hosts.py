"""Separate hosts on one machine, each on a network of its own, and a router between them that spoils what passes."""

import os
import subprocess


class RoutedHosts:
    """`count` hosts: host i has address(i). They are removed with the test, which is skipped if they cannot be created."""

    def __init__(self, test, count):
        tag = f"dd{os.getpid() % 100000}"
        self.names = [f"{tag}h{i}" for i in range(count)]
        self.router = f"{tag}r"
        lines = [f"ip netns add {self.router}", f"ip netns exec {self.router} sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'"]
        for i, name in enumerate(self.names):
            gateway = self.address(i)[:-1] + "1"
            lines += [f"ip netns add {name}", f"ip link add eth0 netns {name} type veth peer name port{i} netns {self.router}",
                      f"ip -n {name} addr add {self.address(i)}/24 dev eth0", f"ip -n {self.router} addr add {gateway}/24 dev port{i}",
                      f"ip -n {name} link set eth0 up", f"ip -n {self.router} link set port{i} up", f"ip -n {name} link set lo up",
                      f"ip -n {name} route add default via {gateway}"]
        test.addCleanup(self.remove)
        made = subprocess.run(["sh", "-c", " && ".join(lines)], capture_output=True, text=True, check=False)
        if made.returncode != 0:
            test.skipTest(f"network namespaces cannot be made here: {made.stderr.strip()}")

    def remove(self):
        for name in [*self.names, self.router]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    @staticmethod
    def address(i):
        return f"10.213.{11 + i}.2"

    def on(self, i):
        """What to put before a command to run it on host i."""
        return ["ip", "netns", "exec", self.names[i]]

    def set_on(self, i, name, value):
        """A setting of host i's network (sysctl)."""
        subprocess.run([*self.on(i), "sh", "-c", f"echo {value} > /proc/sys/{name}"], check=True)

    def drop(self, rule):
        """From now on the router drops, in silence, what matches."""
        subprocess.run(["ip", "-n", self.router, "rule", "add", "priority", "100", *rule.split(), "type", "blackhole"], check=True)

    def drop_between(self, i, j, rule=""):
        self.drop(f"from {self.address(i)} to {self.address(j)} {rule}")

    def lower_mtu(self, i, j, mtu):
        """The router carries packets from host i to host j only up to this size."""
        for line in (f"route add {self.address(j)} dev port{j} mtu lock {mtu} table 200", f"rule add from {self.address(i)} to {self.address(j)} lookup 200"):
            subprocess.run(["ip", "-n", self.router, *line.split()], check=True)

    def bytes_sent(self, i):
        """What the kernel has counted on the interface of host i."""
        shown = subprocess.run([*self.on(i), "cat", "/sys/class/net/eth0/statistics/tx_bytes"], capture_output=True, text=True, check=True)
        return int(shown.stdout)

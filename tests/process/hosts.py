"""Separate hosts on one machine: network namespaces on a switch, which may lose a cable."""

import os
import subprocess


class Hosts:
    """`count` hosts that reach each other at 10.213.8.1, .2, ...; they go with the test, which is skipped where they cannot be had."""

    SWITCH_ADDRESS = "10.213.8.254"  # where a service may run that is on none of the hosts

    def __init__(self, test, count):
        tag = f"dl{os.getpid() % 100000}"
        self.switch = f"{tag}s"
        self.names = [f"{tag}h{i}" for i in range(count)]
        self.addresses = [f"10.213.8.{i + 1}" for i in range(count)]
        self.ports = [f"{tag}p{i}" for i in range(count)]
        commands = [f"ip netns add {self.switch}", f"ip -n {self.switch} link add switch type bridge",
                    f"ip -n {self.switch} link set switch up", f"ip -n {self.switch} link set lo up",
                    f"ip -n {self.switch} addr add {self.SWITCH_ADDRESS}/24 dev switch"]
        for name, address, port in zip(self.names, self.addresses, self.ports):
            commands += [f"ip netns add {name}",
                         f"ip link add eth0 netns {name} type veth peer name {port} netns {self.switch}",
                         f"ip -n {name} addr add {address}/24 dev eth0",
                         f"ip -n {name} link set eth0 up",
                         f"ip -n {name} link set lo up",
                         f"ip -n {self.switch} link set {port} master switch up"]
        test.addCleanup(self._remove)
        made = subprocess.run(["sh", "-c", " && ".join(commands)], capture_output=True, text=True, check=False)
        if made.returncode != 0:
            test.skipTest(f"network namespaces cannot be made here: {made.stderr.strip()}")

    def _remove(self):
        for name in [*self.names, self.switch]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    def on(self, i):
        """What to put before a command to run it on host i."""
        return ["ip", "netns", "exec", self.names[i]]

    def on_switch(self):
        return ["ip", "netns", "exec", self.switch]

    def pull_cable(self, i):
        subprocess.run(["ip", "-n", self.switch, "link", "set", self.ports[i], "nomaster"], check=True)

    def plug_cable(self, i):
        subprocess.run(["ip", "-n", self.switch, "link", "set", self.ports[i], "master", "switch"], check=True)

"""Separate hosts on one machine: network namespaces on switches, which may lose a cable."""

import ipaddress
import json
import os
import subprocess

IPV4 = ("10.213.8.0/24", "10.213.10.0/24")
IPV6 = ("fd00:213:8::/64", "fd00:213:10::/64")


class Hosts:
    """`count` hosts on each of `networks`: host i is the (i+1)th of network n, through its interface eth<n>. They are removed with the test, which is skipped if they cannot be created."""

    SWITCH_ADDRESS = "10.213.8.254"  # on IPV4[0]: for a service that runs on none of the hosts

    def __init__(self, test, count, networks=IPV4[:1]):
        tag = f"dl{os.getpid() % 100000}"
        self.switch = f"{tag}s"
        self.names = [f"{tag}h{i}" for i in range(count)]
        self.networks = [ipaddress.ip_network(network) for network in networks]
        self.addresses = [self.address(i) for i in range(count)]
        commands = [f"ip netns add {self.switch}", f"ip -n {self.switch} link set lo up"]
        for name in self.names:
            commands += [f"ip netns add {name}", f"ip -n {name} link set lo up"]
        for n, network in enumerate(self.networks):
            commands += [f"ip -n {self.switch} link add switch{n} type bridge", f"ip -n {self.switch} link set switch{n} up"]
            # Duplicates are looked for, for a second or two, before an IPv6 address can be used.
            check = " nodad" if network.version == 6 else ""
            for i, name in enumerate(self.names):
                commands += [f"ip link add eth{n} netns {name} type veth peer name {self._port(i, n)} netns {self.switch}",
                             f"ip -n {name} addr add {self.address(i, n)}/{network.prefixlen} dev eth{n}{check}",
                             f"ip -n {name} link set eth{n} up",
                             f"ip -n {self.switch} link set {self._port(i, n)} master switch{n} up"]
        if self.networks[0] == ipaddress.ip_network(IPV4[0]):
            commands.append(f"ip -n {self.switch} addr add {self.SWITCH_ADDRESS}/24 dev switch0")
        test.addCleanup(self.remove)
        made = subprocess.run(["sh", "-c", " && ".join(commands)], capture_output=True, text=True, check=False)
        if made.returncode != 0:
            test.skipTest(f"network namespaces cannot be made here: {made.stderr.strip()}")

    def remove(self):
        for name in [*self.names, self.switch]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    @staticmethod
    def _port(i, network):
        return f"port{i}-{network}"

    def ports(self, network=0):
        """The switch's ends of the cables."""
        return [self._port(i, network) for i in range(len(self.names))]

    def address(self, i, network=0):
        return str(self.networks[network][i + 1])

    def on(self, i):
        """What to put before a command to run it on host i."""
        return ["ip", "netns", "exec", self.names[i]]

    def on_switch(self):
        return ["ip", "netns", "exec", self.switch]

    def bytes_sent(self, i, network):
        """What the kernel has counted on the interface of host i."""
        shown = subprocess.run(["ip", "-n", self.names[i], "-s", "-j", "link", "show", "dev", f"eth{network}"],
                               capture_output=True, text=True, check=True)
        return json.loads(shown.stdout)[0]["stats64"]["tx"]["bytes"]

    def pull_cable(self, i, network=0):
        subprocess.run(["ip", "-n", self.switch, "link", "set", self._port(i, network), "nomaster"], check=True)

    def plug_cable(self, i, network=0):
        subprocess.run(["ip", "-n", self.switch, "link", "set", self._port(i, network), "master", f"switch{network}"], check=True)

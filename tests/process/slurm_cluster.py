"""A Slurm cluster on this machine: munged, slurmctld, and a slurmd for each node, in a folder of its own.

    slurm_cluster.py FOLDER NODE ...

As a program it waits until its standard input ends, and then ends what the cluster in FOLDER has started: so nothing is
left of a cluster however the test ends.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from common import PATIENCE, environment, free_port, marked, wait_until

PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "salloc", "scancel", "scontrol")

# No node's name has an address: only Slurm's NodeAddr leads to it. All times are those of a usual cluster, since a busy
# machine would miss shorter ones; jobs are scheduled at once.
CONFIGURATION = """
ClusterName={name}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdSpoolDir={folder}/spool.%n
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/{tracking}
TaskPlugin=task/{tasks}
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
MessageTimeout=30
ReturnToService=2
FirstJobId={first_job}
DefMemPerNode=64
{nodes}
PartitionName=usual Nodes=ALL Default=YES PriorityTier=1 State=UP
PartitionName=urgent Nodes=ALL PriorityTier=2 State=UP
"""

CGROUPS = """
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
ConstrainRAMSpace=yes
"""
HIERARCHIES = ("/sys/fs/cgroup/freezer", "/sys/fs/cgroup/memory")  # those that Slurm uses for this


def missing():
    """The programs that are not installed."""
    return [program for program in PROGRAMS if not shutil.which(program, path=PATH)]


def has_cgroups():
    """Whether Slurm can use control groups here. With version 2 its plugin needs systemd, which no container has."""
    return all(os.path.exists(f"{hierarchy}/tasks") and os.access(hierarchy, os.W_OK) for hierarchy in HIERARCHIES)


def mark_of(folder):
    """What the environment of each process of the cluster has, also of the jobs that it runs."""
    return f"SLURM_CONF={folder}/slurm.conf\0".encode()


def end_all(pids):
    """At once: none of them sees the end of another."""
    for signo in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            try:
                os.kill(pid, signo)
            except ProcessLookupError:
                pass


def fields_of(text):
    """{name: value} of what `scontrol --oneliner show` prints; of a value with blanks, the part before the first."""
    return dict(word.split("=", 1) for word in text.split() if "=" in word)


class Cluster:
    """`count` nodes of 8 processors each; each has an address of its own in 127.0.0.0/8. With `cgroups`, control groups track
    steps and limit their memory; otherwise process groups track them. With both, a signal goes to dlaunch and not to its workers."""

    def __init__(self, count, cgroups=False):
        self.folder = tempfile.mkdtemp(prefix="dlaunch_slurm.")
        os.chmod(self.folder, 0o755)  # munged's socket must be accessible
        self.tmp = os.path.join(self.folder, "tmp")
        os.mkdir(self.tmp)
        # Ports are given out once, so these names and addresses are this cluster's alone.
        port = free_port()
        self.nodes = [f"test{port}-{i + 1}" for i in range(count)]
        self.addresses = [f"127.{port >> 8}.{port & 255}.{i + 1}" for i in range(count)]
        self.guard = subprocess.Popen([sys.executable, os.path.abspath(__file__), self.folder, *self.nodes], stdin=subprocess.PIPE,
                                      stdout=subprocess.DEVNULL, start_new_session=True)
        self.daemons = {}
        self._write_configuration(port, cgroups)

    def _path(self, name):
        return os.path.join(self.folder, name)

    def _write_configuration(self, port, cgroups):
        host = socket.gethostname().split(".")[0]
        nodes = "\n".join(f"NodeName={name} NodeHostname={host} NodeAddr={address} Port={free_port()} CPUs=8 RealMemory=1024 State=UNKNOWN"
                          for name, address in zip(self.nodes, self.addresses))
        with open(self._path("slurm.conf"), "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(name=f"test{port}", host=host, port=port, folder=self.folder, nodes=nodes, first_job=port,
                                            user=pwd.getpwuid(os.getuid()).pw_name, tracking="cgroup" if cgroups else "pgid",
                                            tasks="cgroup" if cgroups else "none"))
        if cgroups:
            with open(self._path("cgroup.conf"), "w", encoding="utf-8") as file:
                file.write(CGROUPS)
        with open(self._path("munge.key"), "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(os.urandom(128))
        os.mkdir(self._path("state"))

    def environment(self, **variables):
        return {**environment(), "PATH": PATH, "SLURM_CONF": self._path("slurm.conf"), "TMPDIR": self.tmp, **variables}

    def start(self):
        munge = {kind: self._path(f"munge.{kind}") for kind in ("socket", "key", "pid", "log", "seed")}
        self._start_daemon("munged", "munged", "--foreground", "--force", f"--socket={munge['socket']}", f"--key-file={munge['key']}",
                           f"--pid-file={munge['pid']}", f"--log-file={munge['log']}", f"--seed-file={munge['seed']}")
        self._wait_for_daemon("munged", lambda: os.path.exists(munge["socket"]))
        self._start_daemon("slurmctld", "slurmctld", "-D")
        for node in self.nodes:
            self.start_node(node)
        for node in self.nodes:
            self._wait_for_daemon("slurmctld", lambda node=node: self.node(node).get("State") == "IDLE")

    def start_node(self, node):
        self._start_daemon(node, "slurmd", "-D", "-N", node)

    def _start_daemon(self, name, *command):
        with open(self._path(f"{name}.out"), "ab") as said:
            self.daemons[name] = subprocess.Popen(command, env=self.environment(DLAUNCH_TEST_NODE=name), stdin=subprocess.DEVNULL, stdout=said,
                                                  stderr=said, cwd=self.folder, start_new_session=True)

    def _wait_for_daemon(self, name, condition):
        def look():
            ended = {daemon: process.returncode for daemon, process in self.daemons.items() if process.poll() is not None}
            if ended:
                raise AssertionError(f"of Slurm's daemons these have ended, with these codes: {ended}\n{self.logs()}")
            return condition()
        try:
            wait_until(look, f"{name} is ready")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.logs()}") from None

    def logs(self):
        """The last lines of all daemons."""
        text = ""
        for name in sorted(os.listdir(self.folder)):
            if name.endswith((".log", ".out")):
                with open(self._path(name), encoding="utf-8", errors="replace") as file:
                    text += f"--- {name}\n" + "".join(file.readlines()[-15:])
        return text

    def stop(self):
        """Ends the cluster with all its jobs, and removes its folder."""
        self.guard.stdin.close()
        for daemon in self.daemons.values():
            daemon.wait(timeout=PATIENCE)
        self.guard.wait(timeout=PATIENCE)

    def run(self, *command, cwd=None, **variables):
        return subprocess.run(command, cwd=cwd or self.folder, env=self.environment(**variables), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=PATIENCE, check=False)

    def show(self, kind, name):
        return fields_of(self.run("scontrol", "--oneliner", "show", kind, name).stdout)

    def node(self, name):
        return self.show("node", name)

    def job(self, number):
        return self.show("job", number)

    def update(self, *fields):
        done = self.run("scontrol", "update", *fields)
        if done.returncode != 0:
            raise AssertionError(f"scontrol update {' '.join(fields)}: {done.stderr}")

    def processes_of_job(self, number):
        mine = set(marked(mark_of(self.folder)))
        return [pid for pid in marked(f"SLURM_JOB_ID={number}\0".encode()) if pid in mine]

    def lose_node(self, name):
        """As if its power had failed: the node's slurmd and all that it has started are killed."""
        mine = set(marked(mark_of(self.folder)))
        daemons = {pid for pid in marked(f"DLAUNCH_TEST_NODE={name}\0".encode()) if pid in mine}
        tasks = {pid for pid in marked(f"SLURMD_NODENAME={name}\0".encode()) if pid in mine}
        end_all(daemons | tasks)
        self.daemons.pop(name).wait(timeout=PATIENCE)

    def repair_node(self, name):
        self.start_node(name)
        self.update(f"NodeName={name}", "State=RESUME")
        self._wait_for_daemon("slurmctld", lambda: self.node(name).get("State") == "IDLE")


def main():
    folder, *nodes = sys.argv[1:]
    sys.stdin.buffer.read()
    while pids := marked(mark_of(folder)):
        end_all(pids)
        time.sleep(0.01)
    for top in [f"{hierarchy}/slurm_{node}" for hierarchy in HIERARCHIES for node in nodes]:
        for place, _, _ in os.walk(top, topdown=False):
            os.rmdir(place)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

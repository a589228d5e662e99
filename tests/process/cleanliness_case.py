"""What tests of cleanliness begin with: workers that try to get away, and a search for what remains of them.

Every process of a job carries a mark in its environment, which its descendants inherit: what remains is found in
/proc, whoever its parent is by now. Each case is repeated, in turns with a control group and (where root may take
the hierarchy away, or become another user) without.
"""

import contextlib
import glob
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import uuid

from common import DLAUNCH, PATIENCE, marked, wait_until

REPEATS = int(os.environ.get("CLEANLINESS_REPEATS", "4"))

# What a worker may do to get away, each in its own way; the names are the arguments of the script below.
FAMILY = r"""
came() { echo $$ > "$DIR/$1.$RANK.tmp"; mv "$DIR/$1.$RANK.tmp" "$DIR/pid.$1.$RANK"; }
stay() { while :; do sleep 1000; done; }
# For the group of all processes, if that is allowed: what ends the job by its group does not find this one.
leave_group() { while read -r _ place type _; do [ $type = cgroup2 ] && (exec 2> /dev/null; echo $$ > $place/cgroup.procs); done < /proc/mounts; }
spin() { spin & }   # a process that is never the same: it forks, and ends
case $1 in
  deep)     came deep$2; [ $2 = 5 ] || sh "$0" deep $(($2 + 1)) & stay ;;
  daemon)   came daemon; trap '' TERM INT HUP; stay ;;
  double)   (setsid sh "$0" daemon2 &) & stay ;;
  daemon2)  came double; trap '' TERM INT HUP; stay ;;
  spinner)  came spinner; spin ;;
  bare)     [ $2 = escaping ] && leave_group; came bare; exec env -i sleep 1000 ;;   # without the mark of this test
  breeder)  came breeder; i=0; while [ $i -lt 40 ]; do sleep 1000 & i=$((i + 1)); done; stay ;;
  worker)   [ $2 = stubborn ] && trap '' TERM INT HUP
            sh "$0" deep 1 &
            setsid sh "$0" daemon &
            sh "$0" double &
            setsid sh "$0" spinner &
            (setsid sh "$0" bare $2 <&- >&- 2>&- &)
            sh "$0" breeder &
            came worker; stay ;;
esac
"""

NAMES = ("worker", "deep5", "daemon", "double", "spinner", "bare", "breeder")

WORKERS = 2


def is_bare(pid):
    """Whether the process is there, and as FAMILY has left it."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read() == b"sleep\0" + b"1000\0"
    except OSError:
        return False


def describe(pids):
    lines = subprocess.run(["ps", "-o", "pid,ppid,sid,stat,args", "-p", ",".join(map(str, pids))], capture_output=True, text=True, check=False)
    return lines.stdout


# The hierarchy of cgroup v2 is taken away, for dlaunch alone.
WITHOUT_GROUPS = ["unshare", "--mount", "sh", "-c", 'umount -a -t cgroup2; exec "$@"', "sh"]

# A user without the right to create a child of this process's cgroup.
AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def containments():
    """The command prefix for dlaunch, for each kind of containment that this machine has."""
    found = [[]]
    if "ended together" in doctor([]):
        found += [prefix for prefix in (WITHOUT_GROUPS, AS_NOBODY) if "ended one by one" in doctor(prefix)]
    return found


def doctor(prefix):
    try:
        return subprocess.run([*prefix, DLAUNCH, "doctor"], capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:  # the prefix's program
        return ""


class Cleanliness(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.containments = containments()

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="dlaunch_cleanliness_test.")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        os.chmod(self.dir, 0o755)
        with open(os.path.join(self.dir, "family.sh"), "w", encoding="utf-8") as file:
            file.write(FAMILY)
        self.mark = "none yet"
        self.place = self.dir
        self.addCleanup(self.clean_up)
        self.random = random.Random(os.environ.get("CLEANLINESS_SEED", "7"))

    def each_time(self):
        """Repeats, in turns."""
        for number in range(REPEATS):
            self.begin(self.containments[number % len(self.containments)])
            yield number
            shutil.rmtree(self.place)

    def begin(self, prefix):
        self.prefix = prefix
        self.mark = uuid.uuid4().hex
        self.place = os.path.join(self.dir, self.mark)
        self.tmp = os.path.join(self.place, "tmp")
        for folder in (self.place, self.tmp):
            os.mkdir(folder)
            os.chmod(folder, 0o777)  # for a job of another user

    def clean_up(self):
        for pid in self.all_processes():
            self.kill_if_any(pid)

    def all_processes(self):
        """Of the current job, dlaunch's among them."""
        return marked(self.mark.encode()) + [pid for pid in self.bare() if is_bare(pid)]

    def bare(self):
        names = glob.glob(os.path.join(self.place, "pid.bare.*"))
        return [self.pid_in(name) for name in names]

    @staticmethod
    def kill_if_any(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def start(self, *arguments, **how):
        variables = {"CLEAN_MARK": self.mark, "DIR": self.place, "TMPDIR": self.tmp, "PATH": os.environ["PATH"]}
        return subprocess.Popen([*self.prefix, DLAUNCH, *arguments], cwd=self.dir, env=variables, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **how)

    def start_family(self, manner="gentle", *options):
        job = self.start(f"--nproc-per-node={WORKERS}", *options, "sh", "family.sh", "worker", manner)
        self.await_family()
        return job

    def await_family(self):
        for name in NAMES:
            for rank in range(WORKERS):
                wait_until(lambda: os.path.exists(os.path.join(self.place, f"pid.{name}.{rank}")), f"{name} of worker {rank} has begun")

    def pid_of(self, name, rank=0):
        return self.pid_in(os.path.join(self.place, f"pid.{name}.{rank}"))

    @staticmethod
    def pid_in(name):
        with open(name, encoding="utf-8") as file:
            return int(file.read())

    @staticmethod
    def kill_at_once(pids):
        """None of them can act on another's death."""
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    def nothing_remains(self, job):
        _, err = job.communicate(timeout=PATIENCE)
        self.only_remain(set(), err)
        wait_until(lambda: os.listdir(self.tmp) == [], f"the files in {self.tmp} have been removed")
        wait_until(lambda: not self.groups_of(job), "the control group has been removed")
        return err

    def only_remain(self, meant, err=""):
        deadline = time.monotonic() + PATIENCE
        while pids := set(self.all_processes()) - set(meant):
            self.assertLess(time.monotonic(), deadline, f"these remain:\n{describe(pids)}\n{err}")
            time.sleep(0.002)

    @staticmethod
    def groups_of(job):
        found = []
        with open("/proc/self/mounts", encoding="utf-8") as mounts:
            roots = [line.split()[1] for line in mounts if line.split()[2] == "cgroup2"]
        for root in roots:
            for place, folders, _ in os.walk(root):
                found += [os.path.join(place, name) for name in folders if name.startswith(f"dlaunch-job-{job.pid}-")]
        return found

"""A control group of a test's own, with a limit."""

import os

from common import wait_until


class ControlGroup:
    """With so many processes and threads (`pids`), or so much memory in bytes. It is removed with the test, which is skipped if it cannot be made."""

    def __init__(self, test, pids=None, memory=None):
        unified = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
        controller = "pids" if pids else "memory"
        root = "/sys/fs/cgroup" if unified else f"/sys/fs/cgroup/{controller}"
        self.name = f"dlaunch_test_{os.getpid()}"
        self.path = os.path.join(root, self.name)
        limits = {"pids.max": pids} if pids else {"memory.max": memory, "memory.swap.max": 0} if unified else {"memory.limit_in_bytes": memory}
        try:
            if unified:
                with open(os.path.join(root, "cgroup.subtree_control"), "w", encoding="utf-8") as file:
                    file.write(f"+{controller}")
            os.mkdir(self.path)
            test.addCleanup(self.remove)
            for name, value in limits.items():
                if name != "memory.swap.max" or os.path.exists(os.path.join(self.path, name)):
                    with open(os.path.join(self.path, name), "w", encoding="utf-8") as file:
                        file.write(str(value))
        except OSError as error:
            test.skipTest(f"no control group with a limit can be made here: {error}")

    def inside(self):
        """What to put before a command to run it in the group."""
        return ["sh", "-c", f"echo $$ > {self.path}/cgroup.procs && exec \"$@\"", "sh"]

    def remove(self):
        def is_gone():  # not until the kernel has let the last process go
            try:
                os.rmdir(self.path)
            except OSError:
                return False
            return True
        wait_until(is_gone, f"{self.path} is empty")

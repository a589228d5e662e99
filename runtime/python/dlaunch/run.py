"""The program, for those that call torchrun as a library: dlaunch.run.main(argv) takes torchrun's arguments."""

import os
import shutil
import subprocess
import sys
import sysconfig


def program():
    """The path of the dlaunch binary: DLAUNCH_PROGRAM, or the one beside this Python, or the one of PATH."""
    named = os.environ.get("DLAUNCH_PROGRAM")
    if named:
        return named
    beside = os.path.join(sysconfig.get_path("scripts"), "dlaunch")
    found = beside if os.access(beside, os.X_OK) else shutil.which("dlaunch")
    if not found:
        raise FileNotFoundError("the program dlaunch is neither beside this Python nor in PATH: install it, or set DLAUNCH_PROGRAM")
    return found


def main(argv=None):
    """Runs a job; returns when it has ended. Raises subprocess.CalledProcessError, with the job's exit code, if it failed."""
    subprocess.run([program(), *(sys.argv[1:] if argv is None else argv)], check=True)

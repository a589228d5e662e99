"""`python -m dlaunch ARGUMENTS` is `dlaunch ARGUMENTS`."""

import os
import sys

from dlaunch.run import program

os.execv(program(), ["dlaunch", *sys.argv[1:]])

#!/usr/bin/env python3
"""README.md and the manual show the table of backends, calls and devices that the conformance tests check.

    support_table.py REPOSITORY
"""

import os
import subprocess
import sys

ROOT = sys.argv[1]
TABLE = os.path.join(ROOT, "tests", "runtime", "api", "support_table.py")
wrong = False
for page, form in (("README.md", "readme"), ("man/libdlaunch-backends.3", "man")):
    wanted = subprocess.run([sys.executable, TABLE, form], capture_output=True, text=True, check=True).stdout
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        if wanted not in file.read():
            print(f"{page}: it does not show the table that 'tests/runtime/api/support_table.py {form}' prints:\n{wanted}")
            wrong = True
sys.exit(wrong)

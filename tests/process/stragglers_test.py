#!/usr/bin/env python3
"""Ranks that are slower than the others: who is named.

    DLAUNCH_BIN_DIR=build/bin stragglers_test.py [Class.test ...]
"""

import json
import re
import subprocess
import urllib.request

from common import DLAUNCH, PATIENCE, free_port, main
from hang_test import STRAGGLER, Hang


class Slow(Hang):
    def test_a_straggler_is_named(self):
        port = free_port()
        job = self.start("--nproc-per-node=8", f"--master-port={port}", STRAGGLER, "slow", DLAUNCH_STRAGGLER_WINDOW="3")
        self.wait_for_line(job, r"^dlaunch: rank 7 is slow: in the last 3 s it came last to \d+ of \d+ collectives of group default, and the others "
                           rf"waited [\d.]+ m?s for it alone \(\d+ %\); dlaunch dump {self.id} there shows what rank 7 \(pid \d+ on host \S+\) does$")
        done = subprocess.run([DLAUNCH, "status", "--json", self.id], capture_output=True, text=True, timeout=PATIENCE, check=True)
        workers = json.loads(done.stdout)["workers"]
        self.assertEqual(max(workers, key=lambda worker: worker["late_s"])["rank"], 7)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
            late = {int(rank): float(value) for rank, value in
                    re.findall(r'(?m)^dlaunch_rank_late_seconds_total\{rank="(\d+)"\} (\S+)$', answer.read().decode())}
        self.assertEqual(max(late, key=late.get), 7)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE) as answer:
            self.assertIn("rank 7 is slow", answer.read().decode())


if __name__ == "__main__":
    main()

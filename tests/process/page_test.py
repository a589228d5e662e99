#!/usr/bin/env python3
"""The page of the job's port, as a browser shows it.

    DLAUNCH_BIN_DIR=build/bin page_test.py [Class.test ...]

Every wait is for what the page shows, and has a deadline.
"""

import os
import subprocess
import unittest
import urllib.request
import uuid

from browser import CHROMIUM, Browser
from common import BIN, DLAUNCH, PATIENCE, environment, free_port, main, wait_until

STRAGGLER = os.path.join(os.path.dirname(BIN), "tests", "straggler")
HOSTILE = """<script>document.title="owned"</script><img src=x onerror="document.title='owned'">"""


@unittest.skipUnless(CHROMIUM, "chromium is not installed")
class Page(unittest.TestCase):
    def setUp(self):
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}/"

    def start(self, *arguments, job="page", window="3"):
        """A window of 3 s: a sample each 100 ms."""
        job = subprocess.Popen([DLAUNCH, f"--rdzv-id={job}", f"--master-port={self.port}", *arguments], stdin=subprocess.DEVNULL,
                               env={**environment(), "DLAUNCH_STRAGGLER_WINDOW": window}, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
        self.addCleanup(self.finish, job)
        return job

    @staticmethod
    def finish(job):
        if job.poll() is None:
            job.terminate()
        job.wait(timeout=PATIENCE)

    def answers(self):
        try:
            with urllib.request.urlopen(self.address, timeout=PATIENCE) as answer:
                return answer.headers
        except OSError:
            return None

    def open(self, **how):
        wait_until(self.answers, "the page is there")
        browser = Browser(**how)
        self.addCleanup(browser.close)
        browser.open(self.address)
        return browser

    @staticmethod
    def state_of(rank):
        """JavaScript: the row of the rank, its state and operation."""
        return f"""(document.querySelector('#ranks tr[data-rank="{rank}"]') || {{innerText: ""}}).innerText"""


class Shown(Page):
    def test_a_healthy_job(self):
        self.start("--nproc-per-node=3", STRAGGLER, "steady")
        browser = self.open()
        browser.wait_for(self.state_of(0) + ".includes('all_reduce #')")
        self.assertEqual(browser.value("document.getElementById('state').textContent"), "running")
        self.assertRegex(browser.value("document.getElementById('facts').textContent"), r"^3 ranks on 1 node, round 0, 0 of 0 restarts used, for ")
        browser.wait_for("document.querySelector('#strips path[data-kind=computing]')")
        browser.wait_for("document.querySelector('#legend [data-kind=computing]')")
        parts = browser.value("""[...document.querySelectorAll('#legend li')].map(li => Number(/([\\d.]+) %/.exec(li.textContent)[1]))""")
        self.assertAlmostEqual(sum(parts), 100, delta=1)
        seen = browser.value("Number(document.body.dataset.updated)")
        browser.wait_for(f"Number(document.body.dataset.updated) > {seen + 1}")  # by itself
        self.assertEqual(browser.errors(), [])

    def test_a_hang_and_its_missing_rank(self):
        self.start("--nproc-per-node=4", STRAGGLER, "absent")
        browser = self.open()
        browser.wait_for("document.getElementById('findings').innerText.includes("
                         "'rank 3 never entered all_reduce #4 of group default; the other 3 have waited ')")
        browser.wait_for(self.state_of(0) + ".includes('waits for a late rank')")
        self.assertIn("in all_reduce #4 of group default for ", browser.value(self.state_of(0)))
        self.assertIn("computing", browser.value(self.state_of(3)))
        browser.wait_for("document.querySelector('#strips path[data-kind=waiting]')")
        # The one to look at comes first.
        browser.value("{ const sort = document.getElementById('sort'); sort.value = 'care'; sort.dispatchEvent(new Event('change')) }")
        self.assertEqual(browser.value("document.querySelector('#ranks tbody tr').dataset.rank"), "3")

    def test_a_straggler(self):
        self.start("--nproc-per-node=4", STRAGGLER, "slow")
        browser = self.open(dark=True)
        browser.wait_for("/rank 3 is slow: .* the others waited .* for it alone/.test(document.getElementById('findings').innerText)")
        self.assertEqual(browser.value("getComputedStyle(document.body).backgroundColor"), "rgb(20, 24, 29)")

    def test_a_stopped_rank(self):
        self.start("--nproc-per-node=3", STRAGGLER, "stopped")
        browser = self.open()
        browser.wait_for(self.state_of(2) + ".includes('stopped')")
        browser.wait_for("document.querySelector('#strips path[data-kind=stopped]')")

    def test_a_restart(self):
        self.start("--nproc-per-node=3", "--max-restarts=2", STRAGGLER, "crash")
        browser = self.open()
        browser.wait_for("/^restart 1 after .*: rank 2 .* exited with code 7( \\(.*\\))?$/m.test(document.getElementById('incidents').innerText)")
        browser.wait_for("document.querySelectorAll('#line .tick').length === 1")
        # Rank 2 had ended by itself, so nothing was to be noticed.
        browser.wait_for("/ \\((stopped in .*, )?(decided in .*, )?started in .*, first operation after .*\\)$/m.test(document.getElementById('incidents').innerText)")
        self.assertNotIn("noticed after", browser.value("document.getElementById('incidents').innerText"))
        self.assertRegex(browser.value("document.getElementById('goodput').textContent"), r"^[\d.]+ % goodput$")
        kinds = browser.value("[...document.querySelectorAll('#legend li')].map(item => item.dataset.kind)")
        self.assertIn("starting", kinds)
        self.assertIn("computing", kinds)
        self.assertIn("round 1, 1 of 2 restarts used", browser.value("document.getElementById('facts').textContent"))

    def test_ranks_of_other_nodes(self):
        for node in range(2):
            self.start("--nnodes=2", f"--node-rank={node}", "--master-addr=127.0.0.1", "--nproc-per-node=2", STRAGGLER, "steady")
        browser = self.open()
        for rank in range(4):
            browser.wait_for(self.state_of(rank) + ".includes('all_reduce #')")
        self.assertEqual(browser.value("[...document.querySelectorAll('#nodes tbody tr')].map(row => row.cells[3].textContent)"), ["0-1", "2-3"])

    def test_many_ranks_are_a_map(self):
        self.start("--nproc-per-node=100", "sleep", "1000")
        browser = self.open(width=390, height=844)
        browser.wait_for("document.querySelectorAll('#ranks tbody tr').length === 100")
        browser.wait_for("document.querySelector('#strips path[data-kind=unrecorded]')")
        self.assertEqual(browser.value("document.querySelector('#strips svg').getAttribute('height')"), "600")
        self.assertLess(browser.value("document.querySelectorAll('#labels span').length"), 60)
        self.assertLessEqual(browser.value("document.documentElement.scrollWidth"), 390, "on a phone nothing is wider than the screen")

    def test_the_end_of_the_job(self):
        job = self.start("--nproc-per-node=2", STRAGGLER, "steady")
        browser = self.open()
        browser.wait_for(self.state_of(1) + ".includes('all_reduce #')")
        self.finish(job)
        browser.wait_for("document.getElementById('silence').innerText.startsWith('No answer for ')")


class Hostile(Page):
    def start_hostile(self):
        return self.start("--nproc-per-node=2", "--no-python", "/bin/sh", "-c", f"echo '{HOSTILE}' >&2; exec sleep 1000", job="<b>page</b>")

    def test_text_of_users_is_text(self):
        self.start_hostile()
        browser = self.open()
        browser.wait_for(self.state_of(1) + ".includes('<script>')")
        browser.value("document.querySelector('#ranks tr[data-rank=\"1\"]').click()")
        browser.wait_for("document.getElementById('detail-lines').textContent.includes('<script>')")
        self.assertEqual(browser.value("document.getElementById('job').textContent"), "<b>page</b>")
        self.assertEqual(browser.value("document.title"), "<b>page</b>: running - dlaunch")
        self.assertEqual(browser.value("document.querySelectorAll('img, b, main script').length"), 0)
        self.assertEqual(browser.errors(), [])

    def test_the_browser_runs_no_other_script(self):
        self.start_hostile()
        browser = self.open()
        browser.wait_for(self.state_of(1) + ".includes('<script>')")
        browser.value("""{ const inline = document.createElement('script'); inline.textContent = 'document.title = "owned"'; document.body.append(inline) }""")
        self.assertEqual(browser.value("document.title"), "<b>page</b>: running - dlaunch")
        self.assertRegex(self.answers()["Content-Security-Policy"], r"^default-src 'none'; script-src 'self'")

    def test_without_script_the_tables_are_there(self):
        self.start_hostile()
        wait_until(self.answers, "the page is there")
        wait_until(lambda: urllib.request.urlopen(self.address, timeout=PATIENCE).read().count(b"&lt;script&gt;document") == 2, "both ranks have written")
        browser = Browser()
        self.addCleanup(browser.close)
        browser.open(self.address, script=False)
        page = browser.html()
        self.assertIn("&lt;b&gt;page&lt;/b&gt;", page)
        self.assertRegex(page, r"<td>1</td><td>[^<]+</td><td>running</td><td>-</td><td>\d+ MiB</td><td>-</td><td>&lt;script&gt;document")
        self.assertNotIn("data-updated", page, "no script ran")


if __name__ == "__main__":
    main()

"""Debian's chromium, driven through its debugging pipe: pages as a reader sees them, after their script has run."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

from common import PATIENCE

CHROMIUM = shutil.which("chromium")


class Browser:
    """One page of a browser without a window. Every wait has a deadline."""

    def __init__(self, width=1280, height=900, dark=False):
        self.profile = tempfile.mkdtemp(prefix="dlaunch_browser.")
        low_commands, self.to_browser = os.pipe()
        self.from_browser, low_answers = os.pipe()
        # It reads descriptor 3 and writes descriptor 4, which are copies of higher ones.
        commands, answers = (fcntl.fcntl(low, fcntl.F_DUPFD, 10) for low in (low_commands, low_answers))
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"import os, sys; os.dup2({commands}, 3); os.dup2({answers}, 4); os.execv(sys.argv[1], sys.argv[1:])",
             CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe",
             f"--user-data-dir={self.profile}", f"--window-size={width},{height}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(commands, answers))
        for end in (commands, answers, low_commands, low_answers):
            os.close(end)
        self.number = 0
        self.bytes = b""
        self.events = []
        targets = self.call("Target.getTargets", session=None)["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self.session = self.call("Target.attachToTarget", session=None, targetId=page, flatten=True)["sessionId"]
        self.call("Page.enable")
        self.call("Log.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.to_browser)
        os.close(self.from_browser)
        shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method, session="own", **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self.read(deadline, method)
            if answer.get("id") != self.number:
                self.events.append(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            else:
                return answer["result"]

    def read(self, deadline, what):
        while b"\0" not in self.bytes:
            if not select.select([self.from_browser], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError(f"chromium did not answer {what} in {PATIENCE} s")
            piece = os.read(self.from_browser, 1 << 20)
            if not piece:
                raise ConnectionError(f"chromium has ended during {what}")
            self.bytes += piece
        message, _, self.bytes = self.bytes.partition(b"\0")
        return json.loads(message)

    def open(self, address, script=True):
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self.events.clear()
        self.call("Page.navigate", url=address)
        self.wait_for_event("Page.loadEventFired")

    def wait_for_event(self, method):
        deadline = time.monotonic() + PATIENCE
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self.read(deadline, method))

    def html(self):
        """Of the page as it is now, also if no script runs in it."""
        return self.call("DOM.getOuterHTML", nodeId=self.call("DOM.getDocument")["root"]["nodeId"])["outerHTML"]

    def value(self, expression):
        """Of JavaScript, as Python sees its JSON; a promise is awaited."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait_for(self, expression):
        """Until it is true, looked at whenever the page has changed."""
        return self.value(f"""new Promise((resolve, reject) => {{
            const look = () => {{ const value = {expression}; if (value) {{ watch.disconnect(); resolve(value); }} }};
            const watch = new MutationObserver(look);
            watch.observe(document, {{subtree: true, childList: true, attributes: true, characterData: true}});
            setTimeout(() => reject(new Error("not in {PATIENCE * 1000 * 9 // 10} ms; the page: " + document.body.innerText)), {PATIENCE * 1000 * 9 // 10});
            look();
        }})""")

    def errors(self):
        """What the page's console has shown, and its exceptions."""
        return [event["params"]["entry"]["text"] for event in self.events if event.get("method") == "Log.entryAdded"
                and event["params"]["entry"]["level"] == "error"]

    def picture(self, path):
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=False)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

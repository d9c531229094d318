"""Drive headless Chromium by the DevTools protocol over pipes.

python -m tests.browser REPORT PICTURE: write the picture of a report that README shows.
"""

import base64
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from PIL import Image

COMMANDS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
FLAGS += ("--no-first-run", "--remote-debugging-pipe")
TIMEOUT = 60.0  # seconds
CHARTS_ARE_DRAWN = (
    "document.querySelectorAll('.chart svg.marks').length"
    " == document.querySelectorAll('.chart').length"
)


def find_browser():
    """Return the path of Chromium; None if it is not installed."""
    return next(filter(None, map(shutil.which, COMMANDS)), None)


class Page:
    """Page in a browser, with the problems in its console."""

    def __init__(self, requests, answers):
        self.problems = []
        self._requests = requests
        self._answers = answers
        self._buffer = b""
        self._n_sent = 0
        self._session = None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method, **params):
        """Call a method of the protocol and return its result."""
        self._n_sent += 1
        message = {"id": self._n_sent, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._requests, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._n_sent:
                assert "error" not in answer, (method, answer)
                return answer["result"]

    def _receive(self):
        while b"\0" not in self._buffer:
            part = os.read(self._answers, 1 << 20)
            assert part, "the browser has ended"
            self._buffer += part
        text, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(text)
        params = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.problems.append(json.dumps(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning"):
                self.problems.append(json.dumps(params["args"]))
            case "Log.entryAdded":
                self.problems.append(params["entry"]["text"])
            case "Network.requestWillBeSent" if params["request"]["url"][:5] not in (
                "file:",
                "data:",
            ):
                self.problems.append(f"request of {params['request']['url']}")
        return message

    def open(self, file, width, height=900):
        """Open a file in a window of this size, and wait until it is loaded."""
        self.problems.clear()
        self.resize(width, height)
        self.send("Page.navigate", url="about:blank")
        self.send("Page.navigate", url=file.absolute().as_uri())
        self.wait("document.readyState == 'complete' && location.protocol == 'file:'")

    def resize(self, width, height=900):
        """Give the window another size."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", **metrics)

    def evaluate(self, expression):
        """Return the value of a JavaScript expression, awaited if it is a promise."""
        answer = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, condition):
        """Wait until a JavaScript expression is true."""
        end = time.monotonic() + TIMEOUT
        while not self.evaluate(condition):
            assert time.monotonic() < end, f"not true in time: {condition}"
            time.sleep(0.05)

    def point(self, element, *, click=False):
        """Move the mouse to the centre of an element, given by a JavaScript expression."""
        self.evaluate(f"({element}).scrollIntoView({{block: 'center'}})")
        box = self.evaluate(f"({element}).getBoundingClientRect().toJSON()")
        centre = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
        self.send("Input.dispatchMouseEvent", type="mouseMoved", **centre)
        for kind in ("mousePressed", "mouseReleased") if click else ():
            self.send("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **centre)

    def take_picture(self, height):
        """Return a picture (PNG) of the page from its top to `height`, in 128 colours."""
        clip = {"x": 0, "y": 0, "width": self.evaluate("innerWidth"), "height": height, "scale": 1}
        answer = self.send("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        image = Image.open(io.BytesIO(base64.b64decode(answer["data"])))
        picture = io.BytesIO()
        image.convert("RGB").quantize(128).save(picture, format="png", optimize=True)
        return picture.getvalue()


@contextmanager
def open_browser(profile):
    """Start Chromium with a new profile directory and yield an empty page."""
    requests = os.pipe()
    answers = os.pipe()

    def connect():  # the protocol's descriptors
        reader = os.dup(requests[0])
        writer = os.dup(answers[1])
        os.dup2(reader, 3)
        os.dup2(writer, 4)

    command = [str(find_browser()), *FLAGS, f"--user-data-dir={profile}"]
    streams = dict.fromkeys(("stdout", "stderr"), subprocess.DEVNULL)
    process = subprocess.Popen(command, close_fds=False, preexec_fn=connect, **streams)
    os.close(requests[0])
    os.close(answers[1])
    try:
        yield Page(requests[1], answers[0])
    finally:
        os.close(requests[1])
        os.close(answers[0])
        process.terminate()
        process.wait(TIMEOUT)


if __name__ == "__main__":
    report, picture = map(Path, sys.argv[1:])
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        open_browser(Path(folder)) as page,
    ):
        page.open(report, 1000)
        page.wait(CHARTS_ARE_DRAWN)
        picture.write_bytes(page.take_picture(1750))

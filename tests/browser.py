"""A real Chromium without a window, driven over its DevTools protocol."""

import base64
import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-default-apps", "--hide-scrollbars", "--mute-audio", "--force-color-profile=srgb",
    "--remote-debugging-port=0",
)  # fmt: skip
PATIENCE = 60.0  # seconds for each answer: the machine may be busy


def find():
    """The path of a browser, or None."""
    named = os.environ.get("FEDJIGSAW_CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def browser(folder):
    """Start a browser whose profile is in `folder`; end it, and only it, at the end of the block."""
    process = subprocess.Popen(
        [find(), *FLAGS, f"--user-data-dir={folder}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield _port(folder, process)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _port(folder, process):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        assert process.poll() is None, "the browser ended"
        try:
            return int((folder / "DevToolsActivePort").read_text().splitlines()[0])
        except (FileNotFoundError, IndexError):
            time.sleep(0.05)
    raise TimeoutError("the browser does not answer")


class Tab:
    """One tab, and everything that happened in it: requests, messages of the console, dialogs."""

    def __init__(self, port):
        from urllib.request import Request, urlopen

        from websockets.sync.client import connect

        new = Request(f"http://127.0.0.1:{port}/json/new?about:blank", method="PUT")
        with urlopen(new, timeout=PATIENCE) as answer:
            self.address = json.load(answer)["webSocketDebuggerUrl"]
        self.connection = connect(self.address, max_size=None, open_timeout=PATIENCE)
        self.socket = self.connection.__enter__()
        self.number = 0
        self.requests, self.complaints, self.dialogs, self.loaded = [], [], [], False
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        """Close the tab."""
        self.call("Page.close")
        self.connection.__exit__(None, None, None)

    def call(self, method, **params):
        """Send a command; return its result. Events that come meanwhile are recorded."""
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": params}))
        while True:
            message = self._receive()
            if message.get("id") == self.number:
                assert "error" not in message, message
                return message["result"]

    def _receive(self):
        message = json.loads(self.socket.recv(timeout=PATIENCE))
        params = message.get("params", {})
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Log.entryAdded":
                self.complaints.append(params["entry"]["text"])
            case "Runtime.consoleAPICalled":
                self.complaints.append(params["args"])
            case "Runtime.exceptionThrown":
                self.complaints.append(params["exceptionDetails"]["text"])
            case "Page.javascriptDialogOpening":
                self.dialogs.append(params["message"])
                self.socket.send(
                    json.dumps(
                        {
                            "id": 0,
                            "method": "Page.handleJavaScriptDialog",
                            "params": {"accept": False},
                        }
                    )
                )
            case "Page.loadEventFired":
                self.loaded = True
        return message

    def open(self, path):
        """Open a file and wait until it is loaded."""
        self.loaded = False
        self.call("Page.navigate", url=path.as_uri())
        while not self.loaded:
            self._receive()
        return self

    def show(self, width, theme="light", height=900):
        """Set the width of the window, and the theme that the reader prefers."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self.call("Emulation.setEmulatedMedia", features=features)
        return self

    def evaluate(self, expression):
        """The value of a JavaScript expression, which may be a promise."""
        found = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def picture(self):
        """The part of the page that the window shows, as PNG."""
        shot = self.call("Page.captureScreenshot", format="png")
        return base64.b64decode(shot["data"])

    def pdf(self):
        """The page as it is printed."""
        made = self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        return base64.b64decode(made["data"])


def main(page, picture):
    """Write a picture of the upper part of a page: that of docs/report.md."""
    from PIL import Image

    with TemporaryDirectory() as folder, browser(Path(folder)) as port:
        tab = Tab(port).show(1000, height=1510).open(Path(page).resolve())
        shot = Image.open(BytesIO(tab.picture())).convert("RGB")
        shot.quantize(64, dither=Image.Dither.NONE).save(picture, optimize=True)
        tab.close()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Headless Chromium, driven through its debugging pipe: open a page, run script in it, press keys, look."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions"),
    *("--hide-scrollbars", "--disable-background-networking", "--remote-debugging-pipe"),
)
# Chromium's answer to what was asked of a page that another one is replacing.
NAVIGATED = "Inspected target navigated or closed"


def executable() -> str | None:
    """Chromium or Chrome; None where there is none."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((found for name in names if (found := shutil.which(name))), None)


class Page:
    """One tab. `errors`: what the page threw or wrote as an error; `fetched`: each address it asked for."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write
        self._number, self._rest = 0, b""
        self.errors: list[str] = []
        self.fetched: list[str] = []
        target = self._call("Target.createTarget", {"url": "about:blank"})["targetId"]
        attached = self._call("Target.attachToTarget", {"targetId": target, "flatten": True})
        self._session: str | None = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")
        self._call("Performance.enable", {"timeDomain": "threadTicks"})

    _session = None

    def _call(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params or {}}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + 60
        while True:
            answer = self._message(deadline)
            if answer.get("id") == self._number:
                if answer.get("error", {}).get("message") == NAVIGATED:
                    return {"result": {}}
                assert "error" not in answer, answer["error"]
                return dict(answer["result"])
            self._event(answer)

    def _message(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "Chromium did not answer within a minute"
            self._rest += os.read(self._read, 1 << 20)
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))

    def _event(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        if event["method"] == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(params["exceptionDetails"]))
        elif event["method"] == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])
        elif event["method"] == "Network.requestWillBeSent":
            self.fetched.append(params["request"]["url"])

    def open(
        self, path: Path, part: str = "", *, dark: bool = False, width: int = 1400, height: int = 1000
    ) -> float:
        """Open a file anew, at a `part` ("#..."); the seconds that loading took, by the page's clock."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._call("Emulation.setEmulatedMedia", {"features": scheme})
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", size)
        for address in ("about:blank", path.as_uri() + part):
            self._call("Page.navigate", {"url": address})
        while not self.run("document.readyState === 'complete' && performance.timing.loadEventEnd > 0"):
            time.sleep(0.02)
        return float(self.run("performance.timing.loadEventEnd - performance.timing.navigationStart")) / 1e3

    def worked(self) -> float:
        """The processor time of the page's main thread since its loading began, in seconds."""
        metrics = self._call("Performance.getMetrics")["metrics"]
        return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))

    def run(self, script: str) -> Any:
        """What an expression is in the page; None while the page is being replaced by another."""
        asked = {"expression": script, "returnByValue": True, "awaitPromise": True}
        answer = self._call("Runtime.evaluate", asked)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def key(self, key: str, text: str = "") -> None:
        """Press a key."""
        code = {"Enter": 13, "Escape": 27, "Tab": 9}.get(key, 0)
        for kind in ("keyDown", "keyUp"):
            typed = {"text": text} if kind == "keyDown" and text else {}
            pressed = {"type": kind, "key": key, "windowsVirtualKeyCode": code, **typed}
            self._call("Input.dispatchKeyEvent", pressed)

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self._call("Input.insertText", {"text": text})

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """Write a screenshot (PNG) of the window, or of the whole page."""
        taken = self._call("Page.captureScreenshot", {"captureBeyondViewport": whole})
        path.write_bytes(base64.b64decode(taken["data"]))


@contextlib.contextmanager
def chromium(profile: Path) -> Iterator[Page]:
    """A browser of its own, with a new profile in `profile`."""
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    command = f'exec "$0" "$@" 3<&{to_read} 4>&{from_write}'
    started = subprocess.Popen(
        ["bash", "-c", command, str(executable()), *FLAGS, f"--user-data-dir={profile}"],
        pass_fds=(to_read, from_write),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_read)
    os.close(from_write)
    try:
        yield Page(from_read, to_write)
    finally:
        os.close(to_write)
        started.terminate()
        started.wait(timeout=20)
        os.close(from_read)

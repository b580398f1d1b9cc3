"""Firefox over WebDriver BiDi, which it speaks by itself: Playwright drives only a Firefox that it has patched.

The rule for every page is that of `chromium.py`: no console error, no dialog, no request, no other page.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from websockets.sync.client import ClientConnection, connect

EXECUTABLES = ("firefox-esr", "firefox")
ESCAPE, ENTER = "\ue00c", "\ue007"
"""Keys without a character, in WebDriver."""

PATIENCE = 240.0
"""Seconds for anything that Firefox does: its start takes 4 of CPU time, and took 110 beside 20 busy processes."""

EVENTS = (
    "browsingContext.contextCreated",
    "browsingContext.userPromptOpened",
    "log.entryAdded",
    "network.beforeRequestSent",
)


class Firefox:
    """A session. One page at a time is enough here."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._last = 0
        self._addresses: Collection[str] = ()
        self.incidents: list[str] = []
        self.send("session.new", capabilities={"alwaysMatch": {"unhandledPromptBehavior": {"default": "dismiss"}}})
        self.send("session.subscribe", events=list(EVENTS))
        self._page = self.send("browsingContext.getTree")["contexts"][0]["context"]
        self.incidents.clear()  # The tab of the start.

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a command; events that arrive before it are noted."""
        number = self._begin(method, **params)
        while True:
            message = json.loads(self._socket.recv(timeout=PATIENCE))
            if message.get("id") == number:
                assert message["type"] == "success", f"{method}: {message['error']}: {message['message']}"
                return dict(message["result"])
            if "method" in message:  # Not the late answer to another command.
                self._note(message["method"], message["params"])

    def _begin(self, method: str, **params: Any) -> int:
        """Sends a command, and returns its number."""
        self._last += 1
        self._socket.send(json.dumps({"id": self._last, "method": method, "params": params}))
        return self._last

    def open(
        self,
        address: str,
        *,
        width: int = 1440,
        height: int = 900,
        also: Collection[str] = (),
        wait: Literal["complete", "none"] = "complete",
    ) -> None:
        """Opens an address from an empty page, so that a fragment is read at the start and not as a change."""
        self._addresses = {"about:blank", address.split("#")[0], *also}
        self.send("browsingContext.setViewport", context=self._page, viewport={"width": width, "height": height})
        self.send("browsingContext.navigate", context=self._page, url="about:blank", wait="complete")
        self.send("browsingContext.navigate", context=self._page, url=address, wait=wait)

    def evaluate(self, function: str, *arguments: Any, frame: int | None = None) -> Any:
        """The result of a JavaScript function; arguments and result are JSON. `frame` is the place of a frame."""
        answer = self.send(
            "script.callFunction",
            functionDeclaration=f"async (json) => JSON.stringify(await ({function})(...JSON.parse(json))) ?? 'null'",
            arguments=[{"type": "string", "value": json.dumps(arguments)}],
            target={"context": self._page if frame is None else self._frames()[frame]},
            awaitPromise=True,
        )
        assert answer["type"] == "success", answer.get("exceptionDetails", {}).get("text")
        return json.loads(answer["result"]["value"])

    def until(self, expression: str, frame: int | None = None) -> None:
        """Waits until an expression is true."""
        deadline = time.monotonic() + PATIENCE
        while not self.evaluate(f"() => Boolean({expression})", frame=frame):
            assert time.monotonic() < deadline, f"still not: {expression}"
            time.sleep(0.05)

    def text(self, selector: str = "main", frame: int | None = None) -> str:
        """The visible text of the first element."""
        return str(self.evaluate("(selector) => document.querySelector(selector).innerText", selector, frame=frame))

    def type(self, keys: str) -> None:
        """Presses keys, one after the other: characters, `ENTER` or `ESCAPE`."""
        pressed = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        source = {"type": "key", "id": "keyboard", "actions": pressed}
        self.send("input.performActions", context=self._page, actions=[source])

    def _frames(self) -> list[str]:
        tree = self.send("browsingContext.getTree", root=self._page)["contexts"][0]
        return [child["context"] for child in tree["children"]]

    def _note(self, method: str, event: Mapping[str, Any]) -> None:
        match method:
            case "log.entryAdded" if event["level"] in ("warn", "error"):
                self.incidents.append(f"console: {event['text']}")
            case "browsingContext.userPromptOpened":
                self.incidents.append(f"dialog: {event['message']}")
                self._begin("browsingContext.handleUserPrompt", context=event["context"])
            case "browsingContext.contextCreated" if event["parent"] is None:
                self.incidents.append(f"another page: {event['url']}")
            case "network.beforeRequestSent":
                url = event["request"]["url"]
                if url.split("#")[0] not in self._addresses and not url.startswith("data:"):
                    self.incidents.append(f"request: {url}")


@contextmanager
def started(profile: Path) -> Iterator[Firefox]:
    """Firefox with an empty profile; the test is skipped where there is none."""
    path = next((path for name in EXECUTABLES if (path := shutil.which(name))), None)
    if path is None:
        pytest.skip(f"there is no second browser: none of {', '.join(EXECUTABLES)} is installed")
    command = [path, "--headless", "--no-remote", "--profile", str(profile), "--remote-debugging-port", "0"]
    log = profile / "stderr.txt"
    with log.open("w") as stderr:
        process = subprocess.Popen(command, stdout=stderr, stderr=stderr, env=os.environ | {"HOME": str(profile)})
    try:
        with connect(f"{_address(process, log)}/session", max_size=None, open_timeout=PATIENCE) as socket:
            yield Firefox(socket)
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        finally:
            process.kill()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + PATIENCE
    while not (match := re.search(r"WebDriver BiDi listening on (ws://\S+)\n", log.read_text("utf-8", "replace"))):
        assert process.poll() is None and time.monotonic() < deadline, log.read_text("utf-8", "replace")
        time.sleep(0.05)
    return match[1]

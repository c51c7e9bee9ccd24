"""Drives a headless Chromium by its DevTools protocol, over the websocket of aiohttp.

It has only what the tests of pages need: open a page, press keys, evaluate expressions, take a screenshot. Every page
is opened in its own context, so that nothing is left from the previous one.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import os
import re
import signal
from dataclasses import dataclass, field

import aiohttp

SECONDS = 60.0  # for any one answer; machines that run tests are slow
FLAGS = (
    "--headless",
    "--remote-debugging-port=0",
    "--no-sandbox",  # tests run as root, and open nothing but our own pages
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--hide-scrollbars",
    "--no-first-run",
)
KEYS = {"Tab": 9, "Enter": 13}


@contextlib.asynccontextmanager
async def browser(program, profile):
    """Start a browser, which ends with the context."""
    command = [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
    quiet = asyncio.subprocess.DEVNULL
    # It gets its own session, so that its helpers end with it.
    process = await asyncio.create_subprocess_exec(
        *command, stdout=quiet, stderr=asyncio.subprocess.PIPE, start_new_session=True
    )
    drain = None
    try:
        url = await asyncio.wait_for(_address(process.stderr), SECONDS)
        drain = asyncio.create_task(process.stderr.read())
        async with aiohttp.ClientSession() as http, http.ws_connect(url, max_msg_size=0) as socket:
            made = Browser(socket)
            listening = asyncio.create_task(made.listen())
            try:
                yield made
            finally:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        if drain is not None:
            await drain


async def _address(stream):
    said = ""
    while line := await stream.readline():
        said += line.decode(errors="replace")
        if found := re.search(r"DevTools listening on (ws://\S+)", said):
            return found[1]
    raise AssertionError(f"the browser did not start: {said[-2000:]}")


class ProtocolError(AssertionError):
    """The browser refused a command, or a page raised."""


class Browser:
    def __init__(self, socket):
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers = {}
        self._pages = {}

    async def listen(self):
        async for message in self._socket:
            said = message.json()
            if "id" in said:
                self._answers.pop(said["id"]).set_result(said)
            elif page := self._pages.get(said.get("sessionId")):
                page.heard(said["method"], said["params"])

    async def send(self, method, session=None, **params):
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        addressed = {"sessionId": session} if session else {}
        await self._socket.send_json({"id": number, "method": method, "params": params, **addressed})
        said = await asyncio.wait_for(answer, SECONDS)
        if "error" in said:
            raise ProtocolError(f"{method}: {said['error']}")
        return said["result"]

    async def page(self, width=1280, height=900, scheme="light"):
        """Open an empty page of this size, for a user who prefers this colour scheme."""
        context = (await self.send("Target.createBrowserContext"))["browserContextId"]
        target = await self.send("Target.createTarget", url="about:blank", browserContextId=context)
        attached = await self.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        page = self._pages[attached["sessionId"]] = Page(self, attached["sessionId"])
        for domain in ("Page", "Network", "Log", "Runtime", "Accessibility"):
            await page.send(f"{domain}.enable")
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        await page.send("Emulation.setDeviceMetricsOverride", **metrics)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await page.send("Emulation.setEmulatedMedia", features=features)
        return page


@dataclass
class Page:
    """One page; `requests` are the URLs that it requested, `complaints` the messages of the browser."""

    browser: Browser
    session: str
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    loaded: asyncio.Event = field(default_factory=asyncio.Event)

    def heard(self, method, params):
        if method == "Page.loadEventFired":
            self.loaded.set()
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Log.entryAdded":
            self.complaints.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Page.javascriptDialogOpening"):
            self.complaints.append(f"{method}: {params}")

    async def send(self, method, **params):
        return await self.browser.send(method, self.session, **params)

    @contextlib.asynccontextmanager
    async def another(self):
        """Wait at the end of the context for the page that its actions lead to."""
        self.loaded.clear()
        yield
        await asyncio.wait_for(self.loaded.wait(), SECONDS)

    async def open(self, url):
        async with self.another():
            await self.send("Page.navigate", url=url)

    async def ask(self, expression):
        """Return the value of a JavaScript expression in the page."""
        said = await self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in said:
            raise ProtocolError(f"{expression}: {said['exceptionDetails']}")
        return said["result"].get("value")

    async def press(self, key):
        code = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
        text = {"text": "\r"} if key == "Enter" else {}
        await self.send("Input.dispatchKeyEvent", type="keyDown", **code, **text)
        await self.send("Input.dispatchKeyEvent", type="keyUp", **code)

    async def type(self, text):
        await self.send("Input.insertText", text=text)

    async def tree(self):
        """(role, name) of everything that a screen reader gets, in order."""
        nodes = (await self.send("Accessibility.getFullAXTree"))["nodes"]
        return [(each["role"]["value"], each.get("name", {}).get("value", "")) for each in nodes if not each["ignored"]]

    async def picture(self):
        """A screenshot of the page, as PNG."""
        return base64.b64decode((await self.send("Page.captureScreenshot", format="png"))["data"])

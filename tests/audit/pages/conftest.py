"""The pages over real HTTP on loopback, and a log of real decisions."""

from __future__ import annotations

import contextlib
import datetime
import html
import re
from dataclasses import dataclass

import aiohttp
import pytest

from muster.webhook.pages.log_places import Shelf
from muster.webhook.pages.page_server import PageServer
from tests.support import trails

NOW = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)


@dataclass
class Client:
    """Asks a site; `url` has no slash at its end."""

    url: str
    http: aiohttp.ClientSession

    async def ask(self, path="/", method="GET", **options):
        async with self.http.request(method, self.url + path, **options) as answer:
            return answer.status, answer.headers, (await answer.read()).decode()

    async def get(self, path="/", **query):
        status, _, text = await self.ask(path, params=query)
        assert status == 200, text
        return text

    async def records(self, **query):
        """Paths of the records that a list links to."""
        return re.findall(r'href="(/record/[^"]*)"', await self.get(**query))


@pytest.fixture
async def site():
    """Serve logs; ended with the test."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(*paths, shelf=None):
            made = PageServer(shelf or Shelf(paths), clock=lambda: NOW)
            port = await made.open(0)
            stack.push_async_callback(made.close)
            url = f"http://127.0.0.1:{port}"
            http = await stack.enter_async_context(aiohttp.ClientSession())
            return Client(url, http)

        yield start


@pytest.fixture(scope="session")
def trail():
    """The lines of a log of real decisions."""
    return trails.lines(trails.decisions())


@pytest.fixture
def real_log(log, trail):
    log.write_bytes(b"".join(trail))
    return log


@pytest.fixture(scope="session")
def plain():
    """The text of a page, without tags and runs of blanks."""

    def text(page):
        body = page.split("</head>")[-1]
        return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())

    return text

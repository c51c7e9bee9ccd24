"""Takes the pictures of docs/audit.md: `python -m tests.audit.pages.pictures`, after the pages have changed."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

from e2e import browsers as programs
from muster.webhook.pages.log_places import Shelf
from muster.webhook.pages.page_server import PageServer
from tests.support import browsers, trails

IMAGES = Path(__file__).parents[3] / "docs" / "images"
PATHS = {"audit.png": "/?rule=trl/launch&job=trl-sft-two-nodes", "audit-list.png": "/"}
SIZES = {"audit.png": (1200, 620), "audit-list.png": (1200, 920)}


def main():
    """Write the pictures."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # so that the header shows a plain name
        log = Path("audit.log")
        log.write_bytes(b"".join(trails.lines(trails.decisions())))
        for name, picture in asyncio.run(_taken(log, f"{folder}/profile")).items():
            (IMAGES / name).write_bytes(picture)


async def _taken(log, profile):
    site, out = PageServer(Shelf([log])), {}
    url = f"http://127.0.0.1:{await site.open(0)}"
    async with browsers.browser(programs.find(), profile) as browser:
        for name, path in PATHS.items():
            page = await browser.page(*SIZES[name])
            await page.open(url + path)
            if name == "audit.png":
                link = await page.ask("document.querySelector('.phases a').getAttribute('href')")
                await page.open(url + link)
            out[name] = await page.picture()
    await site.close()
    return out


if __name__ == "__main__":
    main()

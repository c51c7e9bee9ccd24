"""The documentation builds as a site, without a warning and without a network, and is used without one."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.operations import pages
from tools.site import index

OFFLINE = """
import socket, sys
def refuse(*_, **__):
    raise OSError("no network is needed to build the documentation")
socket.socket.connect = socket.getaddrinfo = refuse
from sphinx.cmd import build
sys.exit(build.main(sys.argv[1:]))
"""
LEFT_OUT = re.compile(r"changelog/(?!README)|manifests/chart/files/")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    options = ["-q", "-W", "--keep-going", "-c", "docs", "-d", folder / "doctrees", ".", folder / "html"]
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE, *options],
        cwd=pages.ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=570,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return folder / "html"


def texts(site):
    return {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}


def test_every_page_for_readers_is_in_it_and_its_navigation_leads_there(site):
    wanted = {name.removesuffix(".md") for name in pages.NAMES if not LEFT_OUT.match(name)}
    assert [name for name in wanted if not (site / f"{name}.html").is_file()] == []
    begin = (site / f"{index.INDEX}.html").read_text(encoding="utf-8")
    assert 'class="sidebar-tree"' in begin
    for title, listed in index.chapters(pages.read(f"{index.INDEX}.md")):
        assert f'<span class="caption-text">{title}</span>' in begin
        for page in listed:
            assert re.search(rf'class="reference internal" href="[^"]*{page.rpartition("/")[2]}\.html"', begin), page


def test_it_begins_at_the_index(site):
    assert f"url={index.INDEX}.html" in (site / "index.html").read_text(encoding="utf-8")


def test_it_loads_nothing_from_elsewhere(site):
    loads = re.compile(
        r"<(?:script|img|iframe|source)[^>]*\ssrc=\"([^\"]*)\"|<link[^>]*\shref=\"([^\"]*)\"|url\(([^)]*)\)"
    )
    every = {path: ["".join(each) for each in loads.findall(text)] for path, text in texts(site).items()}
    assert len(every[site / f"{index.INDEX}.html"]) > 3
    for path, found in every.items():
        assert [each for each in found if re.match(r"(https?:)?//", each)] == [], path
    for path in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import )\s*[\"']?(https?:)?//", path.read_text(encoding="utf-8")), path


def test_the_python_interface_is_made_of_docstrings(site):
    text = (site / "docs/reference/python.html").read_text(encoding="utf-8")
    for name in ("muster.TRLTrainer", "muster.strategies.FrameworkStrategy", "muster.strategies.Changes.set"):
        assert f'id="{name}"' in text, name


def test_words_are_found_in_it(site):
    words = (site / "searchindex.js").read_text(encoding="utf-8")
    assert "rendezv" in words

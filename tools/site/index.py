"""An extension of Sphinx: it reads the repository's Markdown pages as GitHub does.

The pages stand where GitHub shows them, and have nothing in them that only Sphinx reads. So the navigation is made from
the tables of docs/README.md, a link to a folder leads to the folder's page, and the site begins at docs/README.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

__all__ = ["INDEX", "chapters", "setup"]

INDEX = "docs/README"
"""The page with which the site begins, and whose tables are its navigation."""
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_FIRST_CELL = re.compile(r"^\| \[[^\]]*\]\(([^)#\s]+)\)", re.MULTILINE)
_BEGINNING = (
    '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={0}"><a href="{0}">{0}</a>\n'
)


def setup(app: Sphinx) -> dict[str, Any]:
    """Add the extension."""
    app.connect("source-read", _with_navigation)
    app.connect("doctree-read", _lead_to_pages)
    app.connect("build-finished", _begin)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def chapters(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each section of the index with the pages that its table lists, by their names in Sphinx."""
    parts = _SECTION.split(text)[1:]
    for title, body in zip(parts[::2], parts[1::2], strict=True):
        listed = [_joined(INDEX, each.removesuffix(".md")) for each in _FIRST_CELL.findall(body)]
        if listed:
            yield title, listed


def _with_navigation(app: Sphinx, name: str, source: list[str]) -> None:
    """Add the tables of contents, which nobody sees in the page itself."""
    listed = dict(chapters(Path(app.srcdir, f"{INDEX}.md").read_text(encoding="utf-8")))
    if name == INDEX:
        source[0] += "".join(_toctree(pages, title) for title, pages in listed.items())
    elif name.endswith("/README"):
        elsewhere = {page for pages in listed.values() for page in pages}
        source[0] += _toctree(sorted(page for page in app.env.found_docs - elsewhere if _parent(page) == name))


def _toctree(pages: Iterable[str], title: str = "") -> str:
    options = [":hidden:", *([f":caption: {title}"] if title else [])]
    return "\n".join(["\n\n```{toctree}", *options, "", *(f"/{each}" for each in pages), "```\n"]) if pages else ""


def _parent(name: str) -> str:
    folder = PurePosixPath(name).parent
    return str((folder.parent if name.endswith("/README") else folder) / "README")


def _lead_to_pages(app: Sphinx, document: nodes.document) -> None:
    """Let each link to a folder lead to the page about it where there is one, and else be only its text."""
    for node in list(document.findall(addnodes.pending_xref)):
        target = _joined(app.env.docname, node["reftarget"])
        if node["reftype"] != "myst" or not Path(app.srcdir, target).is_dir():
            continue
        if f"{target}/README" in app.env.found_docs:
            node["reftype"], node["refdomain"], node["reftarget"] = "doc", "std", f"/{target}/README"
            node["refexplicit"] = True
        else:
            node.replace_self(node.children)


def _joined(page: str, link: str) -> str:
    """Return a link of a page as a path from the root of the repository."""
    parts: list[str] = []
    for part in (PurePosixPath(page).parent / link).parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def _begin(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        Path(app.outdir, "index.html").write_text(_BEGINNING.format(f"{INDEX}.html"), encoding="utf-8")

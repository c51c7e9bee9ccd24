"""Sphinx's configuration of the site that `make docs` builds from the Markdown pages of the repository."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for tools.site, in whatever folder Sphinx runs

project = "Muster"
author = "the authors of Muster"
html_title = "Muster"
root_doc = "docs/README"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "tools.site.index"]
include_patterns = [
    "*.md",
    "docs/**.md",
    "changelog/README.md",
    "examples/**.md",
    "images/**.md",
    "manifests/**.md",
    "tests/golden/README.md",
]
exclude_patterns = ["**/.*", "build", "**/*.egg-info", "manifests/chart/files"]
source_suffix = {".md": "markdown"}
html_theme = "furo"  # its fonts are those of the reader's machine: nothing comes from a network
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"light_css_variables": {}, "navigation_with_keys": True}
pygments_style = "default"
myst_heading_anchors = 6  # the anchors that GitHub gives to headings
default_role = "literal"  # `names` in docstrings are code
autodoc_typehints = "signature"
autodoc_member_order = "groupwise"
autodoc_default_options = {"members": True, "undoc-members": False, "show-inheritance": False}
napoleon_use_ivar = True  # attributes as one list
nitpicky = False  # types of the standard library have no pages here

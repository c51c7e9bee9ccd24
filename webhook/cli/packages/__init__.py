"""Packages: a strategy of one's own as a Python package, with tests, an image and values of the chart.

Each file of `templates` has the blanks of `string.Template`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from string import Template

__all__ = ["FILES", "files"]

FILES: Mapping[str, str] = {
    "readme.part": "README.md",
    "project.part": "pyproject.toml",
    "face.part": "$package/__init__.py",
    "strategy.part": "$package/strategy.py",
    "tests.part": "tests/test_strategy.py",
    "image.part": "Dockerfile",
    "ignored.part": ".dockerignore",
    "values.part": "values.yaml",
}
"""Each template, and the path of the file that it becomes."""


def files(framework: str, version: str) -> dict[str, str]:
    """Return the texts of a package by their paths.

    Args:
        framework: value of the label that selects the strategy: lower-case letters, digits and dashes.
        version: the version of Muster, for the image that the package is added to.
    """
    blanks = {
        "framework": framework,
        "distribution": f"muster-strategy-{framework}",
        "package": f"muster_strategy_{framework.replace('-', '_')}",
        "strategy": f"{''.join(map(str.capitalize, framework.split('-')))}Strategy",
        "version": version,
    }
    return {Template(path).substitute(blanks): _filled(name, blanks) for name, path in FILES.items()}


def _filled(name: str, blanks: Mapping[str, str]) -> str:
    text = resources.files(__name__).joinpath("templates", name).read_text(encoding="utf-8")
    return Template(text).substitute(blanks)

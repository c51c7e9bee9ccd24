"""The committed tables of each package are those that its shipped version, installed here, prints."""

from __future__ import annotations

import pytest

from muster.strategies import upstream
from tools.upstream import table_files
from tools.upstream.known import PACKAGES

OF_TRAINER = [("trainer", version) for version in (*upstream.versions("trainer"), "next")]
SHIPPED = [
    pytest.param(name, upstream.shipped(name), marks=pytest.mark.thorough if name == "vllm" else ())
    for name in PACKAGES
    if name != "trainer"
]


@pytest.mark.parametrize(("name", "version"), [*SHIPPED, *OF_TRAINER])
def test_the_tables_are_those_of_the_package_itself(name, version):
    for table, generated in PACKAGES[name].tables(version).items():
        moved = list(table_files.changes(upstream.data(name, table, version), generated))
        assert moved == [], f"make upstream FRAMEWORK={name} VERSION={version} writes {table}.json again"

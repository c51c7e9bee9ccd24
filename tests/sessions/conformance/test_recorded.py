"""What is said of the client is of the version that is installed."""

from __future__ import annotations

import json

from tests.sessions.conformance import page, recording


def test_the_page_of_methods_is_what_the_table_says():
    assert page.PAGE.read_text() == page.written(), f"write it anew: {page.COMMAND}"


def test_a_version_of_the_client_that_differs_is_told_thing_by_thing():
    told = recording.differences(json.loads(recording.FILE.read_text()), recording.found())
    assert not told, "\n".join([*told, f"look at each, then record it: {recording.COMMAND}"])


def test_what_is_new_gone_or_other_is_named():
    before = {"method": {"A.old": "(self)", "A.kept": "(self)", "A.other": "(self)"}}
    after = {"method": {"A.new": "(self, n)", "A.kept": "(self)", "A.other": "(self, n)"}}
    assert recording.differences(before, after) == [
        "method A.new: is new: (self, n)",
        "method A.old: is gone",
        "method A.other: was (self), is (self, n)",
    ]

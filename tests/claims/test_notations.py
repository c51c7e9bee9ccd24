"""The annotation in the shape of KEP-2782, read from whatever a user may have written."""

from __future__ import annotations

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.strategies.claims import requests
from muster.strategies.documents import findings
from muster.strategies.documents.model import PodClaim
from tests.support import generated, limits

FIELD = "metadata.annotations[muster.dev/resource-claims]"
TEMPLATE = {"name": "gpu", "resourceClaimTemplateName": "two"}


def read(value):
    return requests.read(value if isinstance(value, str) else json.dumps(value), FIELD)


def test_claims_by_template_and_by_name_are_read():
    (one, two), said = read([{**TEMPLATE, "containerNames": ["node"]}, {"name": "nic", "resourceClaimName": "x"}])
    assert findings.errors(said) == []
    assert (one.kind, one.object, one.containers) == ("ResourceClaimTemplate", "two", ("node",))
    assert two.entry == PodClaim("nic", resource_claim_name="x")


def test_members_of_the_draft_are_noted_and_those_that_were_merged_are_not():
    assert read([TEMPLATE])[1] == ()
    _, said = read([{**TEMPLATE, "containerNames": ["node"]}, {"name": "nic", "resourceClaimName": "x"}])
    assert [(each.severity.value, each.field, each.rule) for each in said] == [
        ("note", f"{FIELD}[0].containerNames", "claims/draft"),
        ("note", f"{FIELD}[1].resourceClaimName", "claims/draft"),
    ]


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ("no JSON", FIELD),
        ("[" * 100_000, FIELD),
        ({"name": "gpu"}, FIELD),
        ([TEMPLATE] * 33, FIELD),
        (["gpu"], f"{FIELD}[0]"),
        ([{"name": "gpu"}], f"{FIELD}[0]"),
        ([{**TEMPLATE, "resourceClaimName": "x"}], f"{FIELD}[0]"),
        ([TEMPLATE, {**TEMPLATE, "name": "GPU"}], f"{FIELD}[1].name"),
        ([{**TEMPLATE, "resourceClaimTemplateName": ""}], f"{FIELD}[0].resourceClaimTemplateName"),
        ([{**TEMPLATE, "resourceClaimTemplateName": 1}], f"{FIELD}[0].resourceClaimTemplateName"),
        ([{**TEMPLATE, "containerNames": "node"}], f"{FIELD}[0].containerNames"),
        ([{**TEMPLATE, "containerNames": [1]}], f"{FIELD}[0].containerNames"),
        ([{**TEMPLATE, "containerNames": ["a"] * 257}], f"{FIELD}[0].containerNames"),
        ([{**TEMPLATE, "template": "x"}], f"{FIELD}[0].template"),
        ([TEMPLATE, TEMPLATE], f"{FIELD}[1].name"),
    ],
)
def test_what_cannot_be_read_is_named_by_its_place_and_nothing_is_added(value, field):
    claims, problems = read(value)
    assert claims == ()
    assert [problem.field for problem in problems] == [field]


@limits.MANY
@given(
    generated.values()
    | st.lists(st.dictionaries(st.sampled_from([*TEMPLATE, "containerNames", "\ud800"]), generated.values()))
)
def test_any_value_is_read_or_explained_in_words_that_any_log_can_hold(value):
    claims, problems = read(json.dumps(value))
    assert not (claims and findings.errors(problems))
    for problem in problems:
        orjson.dumps([problem.field, problem.value, problem.message])

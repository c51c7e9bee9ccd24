"""The jobs of manifests/profiles, as `muster explain` tells them: where each claim and process count came from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muster.webhook import kubeyaml
from muster.webhook.cli.main import main

FOLDER = Path(__file__).parents[2] / "manifests" / "profiles"


@pytest.fixture
def muster(capsys):
    def run(command, *args, file=""):
        code = main([command, "--config", str(FOLDER / "muster.yaml"), "-f", str(FOLDER / file), *args])
        out = capsys.readouterr()
        assert (code, out.err) == (0, "")
        return out.out

    return run


def explained(muster):
    found = json.loads(muster("explain", "-o", "json"))
    return {(each["kind"], each["name"]): each for each in found}


def changes(case, rule):
    return [change for change in case["changes"] if change["rule"] == rule]


def test_the_process_count_of_a_trainjob_says_which_profile_it_comes_from(muster):
    case = explained(muster)["TrainJob", "trainer-on-four"]
    (pinned,) = changes(case, "torch/processes")
    assert (pinned["path"], pinned["after"]) == ("spec.trainer.numProcPerNode", 4)
    assert "profile four-gpus (TrainJob annotation muster.dev/claim-profile)" in pinned["reason"]
    assert case["launch"].endswith("(2 nodes x 4 processes)")


def test_the_claim_that_will_stand_on_its_jobset_is_told_with_the_swap(muster):
    case = explained(muster)["JobSet", "trainer-on-four"]
    assert case["predicted"]
    (swapped,) = changes(case, "torch/replaced-resource")
    assert swapped["path"].endswith("resources.limits[nvidia.com/gpu]")
    assert (
        "profile four-gpus (TrainJob annotation muster.dev/claim-profile) replaces nvidia.com/gpu" in swapped["reason"]
    )
    claim, use = changes(case, "torch/claim")
    assert claim["after"] == [{"name": "devices", "resourceClaimTemplateName": "muster-four-gpus"}]
    assert use["path"].endswith("resources.claims")
    assert case["launch"].endswith("(2 nodes x 4 processes)")
    assert case["findings"] == []


def test_a_seat_is_told_with_its_limit(muster):
    case = explained(muster)["JobSet", "sampler"]
    (seat,) = changes(case, "vllm/seat")
    assert "at most 3 pods run on one claim" in seat["reason"]
    assert case["findings"] == []


def test_the_table_for_people_holds_them_too(muster):
    out = muster("explain", file="")
    for word in ("torch/claim", "torch/processes", "torch/replaced-resource", "vllm/seat", "four-gpus"):
        assert word in out


def test_what_is_rendered_can_be_applied_and_stays_as_it_is(muster):
    documents = [parsed.value for parsed in kubeyaml.load_all(muster("render"))]
    (jobset,) = (each for each in documents if each["kind"] == "JobSet")
    pod = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    assert pod["spec"]["schedulingGates"] == [{"name": "muster.dev/seat"}]
    assert pod["metadata"]["labels"] == {"muster.dev/profile": "sampler-seat"}

"""Claims among the files of `muster check` that the API server refuses, so that pods would wait for them."""

from __future__ import annotations

import pytest
import yaml

from tests.jobsets.sets import TORCHRUN, container, jobset, part


def exactly(name="gpu", **more):
    return {"name": name, "exactly": {"deviceClassName": "gpu.example.com", **more}}


def choices(number):
    every = [{"name": f"c{n}", "deviceClassName": "gpu.example.com"} for n in range(number)]
    return {"name": "gpu", "firstAvailable": every}


def constrained(request, attribute="example.com/root"):
    return {"constraints": [{"requests": [request], "matchAttribute": attribute}]}


def told(muster, requests, *, kind="ResourceClaimTemplate", version="v1", spec=None, **devices):
    inner = {"devices": {"requests": requests, **devices}}
    outer = spec or ({"spec": inner} if kind == "ResourceClaimTemplate" else inner)
    claim = {"apiVersion": f"resource.k8s.io/{version}", "kind": kind, "metadata": {"name": "held"}, "spec": outer}
    main = container(*TORCHRUN)
    main["resources"] = {"claims": [{"name": "gpus"}]}
    member = "resourceClaimTemplateName" if kind == "ResourceClaimTemplate" else "resourceClaimName"
    job = jobset(part("node", main, pod={"resourceClaims": [{"name": "gpus", member: "held"}]}))
    result = muster("check", "-f", "-", stdin=yaml.safe_dump_all([claim, job]))
    return [line for line in result.out.splitlines() if "claims/refused-object" in line]


REFUSED = {
    "a count beside All": ([exactly(allocationMode="All", count=4)], {}, "count"),
    "a count below 0": ([exactly(count=-1)], {}, "count"),
    "a mode that is none": ([exactly(allocationMode="Some")], {}, "allocationMode"),
    "no class": ([{"name": "gpu", "exactly": {"count": 1}}], {}, "deviceClassName"),
    "no kind of request": ([{"name": "gpu"}], {}, "exactly and firstAvailable"),
    "both kinds of request": ([{**exactly(), **choices(1)}], {}, "exactly and firstAvailable"),
    "nine choices": ([choices(9)], {}, "8 choices"),
    "two requests of one name": ([exactly(), exactly()], {}, "another request"),
    "a constraint of nobody": ([exactly()], constrained("gpus"), "gpus is not a request"),
    "a constraint of a choice that is none": ([choices(2)], constrained("gpu/c2"), "gpu/c2 is not a request"),
    "an attribute without a domain": ([exactly()], constrained("gpu", "root"), "needs a domain"),
    "a name in capitals": ([exactly("GPU")], {}, "not a DNS label"),
    "a configuration of nobody": (
        [exactly()],
        {"config": [{"requests": ["gpus"], "opaque": {}}]},
        "gpus is not a request",
    ),
    "no inner spec": ([], {"spec": {"devices": {"requests": [exactly()]}}}, "no spec.spec"),
}


@pytest.mark.parametrize(("requests", "more", "said"), REFUSED.values(), ids=REFUSED)
def test_a_claim_that_the_api_server_refuses_is_told_at_the_pods_that_name_it(muster, requests, more, said):
    (line,) = told(muster, requests, **more)

    assert "resourceClaims[gpus].resourceClaimTemplateName" in line
    assert said in line


TAKEN = {
    "a count": ([exactly(count=4)], {}),
    "all devices": ([exactly(allocationMode="All")], {}),
    "eight choices": ([choices(8)], {}),
    "a constraint of a choice": ([choices(2)], constrained("gpu/c1")),
    "a constraint of all": ([exactly()], {"constraints": [{"matchAttribute": "example.com/root"}]}),
    "a configuration": ([exactly()], {"config": [{"requests": ["gpu"], "opaque": {}}, {"opaque": {}}]}),
    "a claim": ([exactly()], {"kind": "ResourceClaim"}),
    "another version, of another form": ([{"name": "gpu", "deviceClassName": "a"}], {"version": "v1beta1"}),
}


@pytest.mark.parametrize(("requests", "more"), TAKEN.values(), ids=TAKEN)
def test_a_claim_that_the_api_server_takes_is_not_spoken_of(muster, requests, more):
    assert told(muster, requests, **more) == []

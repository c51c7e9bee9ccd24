from __future__ import annotations

import copy
import re

import jsonpatch
import yaml

from bench.peers import changes, gatekeepers, kyvernos


def _assigned(job, location, value):
    """The job with the value at a place as Gatekeeper writes it: lists are looked through by a key, and grow."""
    node = job
    *steps, last = re.findall(r"([^.\[\]]+)(?:\[name:([^\]]+)\])?(?:\.|$)", location)
    for name, key in steps:
        node = node.setdefault(name, [] if key else {})
        if key:
            found = [each for each in node if each["name"] == key] or [{"name": key}]
            node[:] = [*(each for each in node if each["name"] != key), found[0]]
            (node,) = found
    node[last[0]] = value


def test_the_mutators_of_gatekeeper_make_the_change_but_for_the_names_that_depend_on_the_job():
    job = changes.job()
    for each in gatekeepers.mutators():
        _assigned(job, each["spec"]["location"], each["spec"]["parameters"]["assign"]["value"])
    assert changes.missing(job) == ["names of the first pod", "claim"] == list(gatekeepers.ASSIGN.lacks)


def test_the_names_of_the_mutators_are_names_of_objects_and_each_is_another():
    names = [each["metadata"]["name"] for each in gatekeepers.mutators()]
    assert len(set(names)) == len(names) == 1 + len(changes.variables())
    assert all(re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name) for name in names)


def test_the_patches_of_the_cluster_policy_make_the_change_once_its_variables_have_their_values():
    job = changes.job()
    known = {
        "request.object.metadata.name": changes.NAME,
        "request.object.spec.replicatedJobs[0].name": "node",
        "nodes": "2",
        "gpus": "4",
        "multiply(nodes, to_number(gpus))": "8",
    }
    (rule,) = kyvernos.CLUSTER_POLICY["spec"]["rules"]
    text = re.sub(r"\{\{(.*?)\}\}", lambda found: known[found[1]], rule["mutate"]["patchesJson6902"])
    patched = jsonpatch.apply_patch(copy.deepcopy(job), yaml.safe_load(text))
    assert changes.missing(patched) == ["claim"]


def test_the_rule_in_rego_looks_at_the_field_that_it_is_given():
    (target,) = gatekeepers.template("trainer.numNodes")["spec"]["targets"]
    assert "input.review.object.spec.trainer.numNodes" in target["rego"]
    assert f"pods > {changes.MOST}" in target["rego"]

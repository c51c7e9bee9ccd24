"""PodGroups among the files of `muster check`, which a service never sees."""

from __future__ import annotations

import pytest
import yaml

from tests.jobsets.sets import TORCHRUN, container, jobset, part

VOLCANO = ("scheduling.volcano.sh/v1beta1", "annotations", "scheduling.k8s.io/group-name")
PLUGINS = ("scheduling.x-k8s.io/v1alpha1", "labels", "scheduling.x-k8s.io/pod-group")


def gang(least, *, version=PLUGINS[0], namespace=None):
    metadata = {"name": "train", **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": "PodGroup", "metadata": metadata, "spec": {"minMember": least}}


def member(pods, kind=PLUGINS, name="node"):
    made = part(name, container(*TORCHRUN), pods=pods)
    made["template"]["spec"]["template"]["metadata"] = {kind[1]: {kind[2]: "train"}}
    return made


def told(muster, *documents, rule="core/gang-size"):
    result = muster("check", "-f", "-", stdin=yaml.safe_dump_all(documents))
    return [line for line in result.out.splitlines() if rule in line]


@pytest.mark.parametrize("kind", [VOLCANO, PLUGINS], ids=["Volcano", "scheduler-plugins"])
def test_a_gang_of_more_pods_than_there_are_is_told_at_the_pods(muster, kind):
    (line,) = told(muster, gang(5, version=kind[0]), jobset(member(4, kind)))
    assert "no pod before 5 exist, and the job has 4" in line
    assert told(muster, gang(4, version=kind[0]), jobset(member(4, kind))) == []


def test_pods_of_other_documents_and_groups_of_others_are_not_judged(muster):
    assert told(muster, gang(6), jobset(member(2), member(4, name="other"))) == []
    assert told(muster, gang(5), jobset(member(4)), jobset(member(1), name="second")) == []
    assert told(muster, gang(5, namespace="another"), jobset(member(4))) == []
    assert told(muster, gang(5), jobset(part("node", container(*TORCHRUN), pods=4))) == []

"""Members of pods, Jobs and JobSets that JobSet, the API server or the kubelet refuses, and what they take."""

from __future__ import annotations

import pytest

from muster.strategies.checks import containers, scheduling
from muster.strategies.documents import labels
from muster.strategies.documents.findings import Severity
from tests.frameworks.builders import found, gpus, jobset, replicated_job, runtime, trainjob

REQUIRED = scheduling.REQUIRED


def requiring(*expressions):
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}}}


def expression(key, operator, *values):
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def rules_of(pod):
    return [rule for _, _, _, rule in (*scheduling.faults(pod), *containers.faults(pod))]


def node(**members):
    return {"containers": [{"name": "node", **members}]}


def ephemeral(**spec):
    return {"volumes": [{"name": "a", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]}


def pausing(seconds, **pod):
    return {**node(lifecycle={"preStop": {"sleep": {"seconds": seconds}}}), **pod}


def apart(**term):
    wish = {"weight": 1, "podAffinityTerm": term}
    return {"affinity": {"podAntiAffinity": {REQUIRED: [term]}, "podAffinity": {PREFERRED: [wish]}}}


STORAGE = {"requests": {"storage": "1Gi"}}
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
MISPLACED = {
    "a selector of a value with a space": {"nodeSelector": {"gpu": "NVIDIA A100"}},
    "a selector of a value that is too long": {"nodeSelector": {"gpu": "a" * 64}},
    "a selector of a key with two slashes": {"nodeSelector": {"a/b/c": "x"}},
    "a selector of a key whose domain has capitals": {"nodeSelector": {"NVIDIA.com/gpu": "x"}},
    "Exists with a value": {"tolerations": [{"key": "gpu", "operator": "Exists", "value": "yes"}]},
    "Equal without a key": {"tolerations": [{"value": "yes"}]},
    "seconds of another effect": {"tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 5}]},
    "an effect that is none": {"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoRun"}]},
    "an operator that is none": {"tolerations": [{"key": "a", "operator": "In", "value": "b"}]},
    "a toleration of a value with a space": {"tolerations": [{"key": "a", "value": "b c"}]},
    "In without values": {"affinity": requiring(expression("a", "In"))},
    "Exists with values": {"affinity": requiring(expression("a", "Exists", "b"))},
    "Gt with two values": {"affinity": requiring(expression("a", "Gt", "1", "2"))},
    "an operator in small letters": {"affinity": requiring(expression("a", "in", "b"))},
    "a required value with a space": {"affinity": requiring(expression("a", "In", "b c"))},
    "a wish without values": {
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "preference": {"matchExpressions": [expression("a", "In")]}}
                ]
            }
        }
    },
    "a skew of none": {
        "topologySpreadConstraints": [{"topologyKey": "a", "maxSkew": 0, "whenUnsatisfiable": "DoNotSchedule"}]
    },
    "a way that is none": {
        "topologySpreadConstraints": [{"topologyKey": "a", "maxSkew": 1, "whenUnsatisfiable": "Never"}]
    },
    "one constraint twice": {
        "topologySpreadConstraints": [{"topologyKey": "a", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}] * 2
    },
    "domains of a wish": {
        "topologySpreadConstraints": [
            {"topologyKey": "a", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2}
        ]
    },
}


@pytest.mark.parametrize("pod", MISPLACED.values(), ids=MISPLACED)
def test_placement_that_the_api_server_refuses_is_refused(pod):
    assert rules_of(pod) == ["core/placement"]


PLACED = {
    "labels of feature discovery": {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "a": ""}},
    "a toleration of everything": {"tolerations": [{"operator": "Exists"}]},
    "a toleration of every effect": {"tolerations": [{"key": "gpu", "value": "yes", "operator": "Equal"}]},
    "a toleration of any value, in words": {"tolerations": [{"key": "gpu", "operator": "Exists", "value": ""}]},
    "a numeric toleration, which a gate allows": {"tolerations": [{"key": "cost", "operator": "Lt", "value": "5"}]},
    "every operator": {
        "affinity": requiring(
            expression("a", "In", "b", "c"),
            expression("a", "NotIn", "d"),
            expression("e", "Exists"),
            expression("f", "DoesNotExist"),
            expression("g", "Gt", "1"),
        )
    },
    "a wish of a value that no label has": {
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "preference": {"matchExpressions": [expression("a", "In", "b c")]}}
                ]
            }
        }
    },
    "two constraints of one key": {
        "topologySpreadConstraints": [
            {"topologyKey": "a", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2},
            {"topologyKey": "a", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"},
        ]
    },
    "a selector that the affinity allows": {
        "nodeSelector": {"a": "b"},
        "affinity": requiring(expression("a", "In", "b", "c"), expression("d", "Exists")),
    },
    "a selector that one of two terms allows": {
        "nodeSelector": {"a": "b"},
        "affinity": {
            "nodeAffinity": {
                REQUIRED: {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [expression("a", "In", "c")]},
                        {"matchExpressions": [expression("a", "NotIn", "c")]},
                    ]
                }
            }
        },
    },
    "fields that are matched": {
        "nodeSelector": {"a": "b"},
        "affinity": {
            "nodeAffinity": {
                REQUIRED: {"nodeSelectorTerms": [{"matchFields": [expression("metadata.name", "In", "host-1")]}]}
            }
        },
    },
}


@pytest.mark.parametrize("pod", PLACED.values(), ids=PLACED)
def test_placement_that_kubernetes_takes_is_not_spoken_of(pod):
    assert rules_of(pod) == []


NOWHERE = {
    "In without the value": (expression("a", "In", "c"),),
    "NotIn with it": (expression("a", "NotIn", "b"),),
    "DoesNotExist": (expression("a", "DoesNotExist"),),
    "a number above": (expression("d", "Exists"), expression("n", "Gt", "8")),
}


@pytest.mark.parametrize("expressions", NOWHERE.values(), ids=NOWHERE)
def test_a_selector_that_no_term_allows_is_refused(expressions):
    assert rules_of({"nodeSelector": {"a": "b", "n": "8"}, "affinity": requiring(*expressions)}) == ["core/no-node"]


def from_field(path):
    return node(env=[{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}])


def from_resource(name):
    return node(env=[{"name": "X", "valueFrom": {"resourceFieldRef": {"resource": name}}}])


WRONG = {
    "a volume of its own without a size": (ephemeral(accessModes=["ReadWriteOnce"]), "volume-source"),
    "a volume of its own without a mode": (ephemeral(resources=STORAGE), "volume-source"),
    "memory below nothing": (
        {"volumes": [{"name": "a", "emptyDir": {"medium": "Memory", "sizeLimit": "-1Gi"}}]},
        "volume-source",
    ),
    "a pause beyond the grace by default": (pausing(31), "hook"),
    "a pause beyond the grace": (pausing(61, terminationGracePeriodSeconds=60), "hook"),
    "a pause before the beginning": (pausing(-1), "hook"),
    "a label in double quotes": (from_field('metadata.labels["a"]'), "env-source"),
    "all labels": (from_field("metadata.labels"), "env-source"),
    "a field that is misspelt": (from_field("metadata.label['a']"), "env-source"),
    "the pod's node by another name": (from_field("spec.node"), "env-source"),
    "a subscript of a name": (from_field("metadata.name['a']"), "env-source"),
    "GPUs": (from_resource("limits.nvidia.com/gpu"), "env-source"),
    "a resource of no part": (from_resource("cpu"), "env-source"),
    "a source of nothing": (node(env=[{"name": "X", "valueFrom": {}}]), "env-source"),
    "two sources": (
        node(
            env=[{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}, "secretKeyRef": {"key": "k"}}}]
        ),
        "env-source",
    ),
    "a value beside its source": (
        node(env=[{"name": "X", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
        "env-source",
    ),
    "a pull policy in small letters": (node(imagePullPolicy="always"), "word"),
    "a message policy that is none": (node(terminationMessagePolicy="Logs"), "word"),
    "an image behind a space": (node(image=" a/b:1"), "word"),
    "a protocol in small letters": (node(ports=[{"containerPort": 80, "protocol": "tcp"}]), "port"),
    "a port of none": (node(ports=[{"containerPort": 0}]), "port"),
    "a port that is too high": (node(ports=[{"containerPort": 70_000}]), "port"),
    "one name of two ports": (node(ports=[{"name": "a", "containerPort": n} for n in (1, 2)]), "port"),
    "a sub path from the root": (node(volumeMounts=[{"name": "a", "mountPath": "/a", "subPath": "/b"}]), "sub-path"),
    "a sub path upwards": (node(volumeMounts=[{"name": "a", "mountPath": "/a", "subPath": "b/../c"}]), "sub-path"),
    "two sub paths": (
        node(volumeMounts=[{"name": "a", "mountPath": "/a", "subPath": "b", "subPathExpr": "c"}]),
        "sub-path",
    ),
    "a privileged container that may not rise": (
        node(securityContext={"privileged": True, "allowPrivilegeEscalation": False}),
        "security-context",
    ),
    "an administrator that may not rise": (
        node(securityContext={"allowPrivilegeEscalation": False, "capabilities": {"add": ["CAP_SYS_ADMIN"]}}),
        "security-context",
    ),
    "root where the container forbids it": (
        node(securityContext={"runAsNonRoot": True, "runAsUser": 0}),
        "security-context",
    ),
    "root where the pod forbids it": (
        {"securityContext": {"runAsNonRoot": True}, **node(securityContext={"runAsUser": 0})},
        "security-context",
    ),
    "root of the whole pod": (
        {"securityContext": {"runAsNonRoot": True, "runAsUser": 0}, **node()},
        "security-context",
    ),
    "a probe of no kind": (node(readinessProbe={"periodSeconds": 5}), "probe"),
    "a probe of two kinds": (node(readinessProbe={"httpGet": {"port": 1}, "tcpSocket": {"port": 1}}), "probe"),
    "a probe with a negative time": (node(startupProbe={"exec": {}, "periodSeconds": -1}), "probe"),
    "a startup probe of two answers": (node(startupProbe={"exec": {}, "successThreshold": 2}), "probe"),
    "a probe of an init container": (
        {"initContainers": [{"name": "a", "livenessProbe": {"exec": {}}}]},
        "probe",
    ),
    "a hook of an init container": (
        {"initContainers": [{"name": "a", "lifecycle": {"preStop": {"exec": {"command": ["x"]}}}}]},
        "probe",
    ),
    "a volume of two sources": ({"volumes": [{"name": "a", "emptyDir": {}, "configMap": {}}]}, "volume-source"),
    "a medium in small letters": ({"volumes": [{"name": "a", "emptyDir": {"medium": "memory"}}]}, "volume-source"),
    "another port of the machine": (
        {"hostNetwork": True, **node(ports=[{"containerPort": 29500, "hostPort": 30000}])},
        "port",
    ),
    "a claim without a name": (
        {"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": ""}}]},
        "volume-source",
    ),
    "a kind of path that is none": (
        {"volumes": [{"name": "a", "hostPath": {"path": "/a", "type": "directory"}}]},
        "volume-source",
    ),
    "a medium that is none": ({"volumes": [{"name": "a", "emptyDir": {"medium": "Ssd"}}]}, "volume-source"),
}


@pytest.mark.parametrize(("weight", "told"), [(0, 1), (1, 0), (100, 0), (101, 1)])
def test_a_wish_weighs_from_1_to_100(weight, told):
    pod = {"affinity": {"podAffinity": {PREFERRED: [{"weight": weight, "podAffinityTerm": {"topologyKey": "a"}}]}}}
    assert rules_of(pod) == ["core/placement"] * told


def test_a_term_about_pods_names_the_nodes_it_means():
    assert rules_of(apart(labelSelector={})) == ["core/placement"] * 2


@pytest.mark.parametrize(("pod", "rule"), WRONG.values(), ids=WRONG)
def test_a_member_that_no_pod_may_have_is_refused(pod, rule):
    assert rules_of(pod) == [f"core/{rule}"]


TAKEN = {
    "a volume of its own": ephemeral(accessModes=["ReadWriteOnce"], resources=STORAGE),
    "memory as a volume": {"volumes": [{"name": "a", "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}}]},
    "a pause within the grace": pausing(30),
    "a pause within a longer grace": pausing(120, terminationGracePeriodSeconds=300),
    "pods apart by host": apart(topologyKey="kubernetes.io/hostname"),
    "a label": from_field("metadata.labels['jobset.sigs.k8s.io/job-index']"),
    "an annotation with capitals": from_field("metadata.annotations['Example.org/A']"),
    "addresses": from_field("status.podIPs"),
    "huge pages": from_resource("requests.hugepages-2Mi"),
    "memory": from_resource("limits.memory"),
    "an empty value beside its source": node(env=[{"name": "X", "value": "", "valueFrom": {"secretKeyRef": {}}}]),
    "a file's key": node(env=[{"name": "X", "valueFrom": {"fileKeyRef": {"path": "a"}}}]),
    "no policy": node(imagePullPolicy="", terminationMessagePolicy=None),
    "one port of two protocols": node(
        ports=[{"name": "a", "containerPort": 53}, {"name": "b", "containerPort": 53, "protocol": "UDP"}]
    ),
    "a sub path with dots in its name": node(volumeMounts=[{"name": "a", "mountPath": "/a", "subPath": "v1..2/x"}]),
    "a sub path of a variable": node(volumeMounts=[{"name": "a", "mountPath": "/a", "subPathExpr": "$(POD)"}]),
    "a container that is not root in a pod that is": {
        "securityContext": {"runAsUser": 0, "runAsNonRoot": True},
        **node(securityContext={"runAsUser": 1000}),
    },
    "a user of the pod alone": {"securityContext": {"runAsUser": 0}, **node(securityContext={"privileged": True})},
    "an unprivileged container": node(
        securityContext={"privileged": False, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    ),
    "a readiness probe of two answers": node(readinessProbe={"exec": {}, "successThreshold": 2}),
    "an empty handler": node(livenessProbe={"exec": {}, "successThreshold": 1, "httpGet": None}),
    "probes of a sidecar": {
        "initContainers": [{"name": "a", "restartPolicy": "Always", "livenessProbe": {"exec": {}}}]
    },
    "a volume of no source": {"volumes": [{"name": "a"}, {"name": "b", "emptyDir": None, "configMap": {}}]},
    "the same port of the machine": {
        "hostNetwork": True,
        **node(ports=[{"containerPort": 29500, "hostPort": 29500}, {"containerPort": 8000}]),
    },
    "another port without the machine's network": node(ports=[{"containerPort": 29500, "hostPort": 30000}]),
    "a kind of path": {"volumes": [{"name": "a", "hostPath": {"path": "/a", "type": "CharDevice"}}]},
    "media": {"volumes": [{"name": m, "emptyDir": {"medium": m}} for m in ("", "Memory", "HugePages-1Gi")]},
}


@pytest.mark.parametrize("pod", TAKEN.values(), ids=TAKEN)
def test_a_member_that_kubernetes_takes_is_not_spoken_of(pod):
    assert rules_of(pod) == []


ODD = (None, 0, 1.5, "", "x", [], {}, [[]], {"a": []}, True)
READ = ("securityContext", "volumeMounts", "imagePullPolicy", "image", "readinessProbe", "terminationMessagePolicy")


@pytest.mark.parametrize("member", READ)
@pytest.mark.parametrize("value", ODD, ids=repr)
def test_a_member_of_an_odd_type_is_left_to_the_api_server(member, value):
    assert set(rules_of(node(**{member: value}))) <= {"core/word", "core/probe"}


def test_keys_and_values_of_labels_are_those_of_kubernetes():
    assert all(map(labels.is_value, ("", "a", "A.b_c-1", "a" * 63)))
    assert not any(map(labels.is_value, ("-a", "a-", "a b", "a/b", "a" * 64, ".", "ä")))
    assert all(map(labels.is_key, ("a", "a.b/C_d", f"{'a' * 63}.{'b' * 63}/c", "example.org/a.b")))
    assert not any(map(labels.is_key, ("", "/a", "a/", "a/b/c", "A.b/c", "a" * 64, "a..b/c", f"{'a' * 254}/c")))


# -- policies

JOB = "spec.replicatedJobs[node].template.spec"


def said(document, governing=None):
    """(severity, rule, field) of the findings of these rules."""
    rules = ("core/job-policy", "core/jobset-policy", "core/placement", "core/env-source", "core/volume-mount")
    return [
        (each.severity.value, each.rule.removeprefix("core/"), each.field)
        for each in found("torch", document, governing)
        if each.rule in rules
    ]


def of_job(**spec):
    document = jobset(replicated_job("node", {"name": "node", "command": ["python", "x.py"]}))
    document["spec"]["replicatedJobs"][0]["template"]["spec"].update(spec)
    return [(rule, field.removeprefix(f"{JOB}.")) for severity, rule, field in said(document) if severity == "error"]


def failing(**rule):
    return {"rules": [{"action": "FailJob", **rule}]}


CODES = {"operator": "In", "values": [1]}
REFUSED_JOBS = {
    "a negative limit": ({"backoffLimit": -1}, "backoffLimit"),
    "a negative time": ({"ttlSecondsAfterFinished": -5}, "ttlSecondsAfterFinished"),
    "a mode that is none": ({"completionMode": "indexed"}, "completionMode"),
    "a limit of each index, without indexes": (
        {"completionMode": "NonIndexed", "backoffLimitPerIndex": 1},
        "backoffLimitPerIndex",
    ),
    "failed indexes without a limit": ({"maxFailedIndexes": 1}, "maxFailedIndexes"),
    "a replacement beside a failure policy": (
        {"podFailurePolicy": failing(onExitCodes=CODES), "podReplacementPolicy": "TerminatingOrFailed"},
        "podReplacementPolicy",
    ),
    "an action that is none": (
        {"podFailurePolicy": {"rules": [{"action": "Fail", "onExitCodes": CODES}]}},
        "podFailurePolicy.rules[0].action",
    ),
    "an index that fails without a limit": (
        {"podFailurePolicy": {"rules": [{"action": "FailIndex", "onExitCodes": CODES}]}},
        "podFailurePolicy.rules[0].action",
    ),
    "a rule about nothing": ({"podFailurePolicy": failing()}, "podFailurePolicy.rules[0]"),
    "a rule about codes and conditions": (
        {"podFailurePolicy": failing(onExitCodes=CODES, onPodConditions=[{"type": "DisruptionTarget"}])},
        "podFailurePolicy.rules[0]",
    ),
    "a code of zero": (
        {"podFailurePolicy": failing(onExitCodes={"operator": "In", "values": [0, 1]})},
        "podFailurePolicy.rules[0].onExitCodes.values",
    ),
    "codes in no order": (
        {"podFailurePolicy": failing(onExitCodes={"operator": "In", "values": [2, 1]})},
        "podFailurePolicy.rules[0].onExitCodes.values",
    ),
    "no codes": (
        {"podFailurePolicy": failing(onExitCodes={"operator": "NotIn", "values": []})},
        "podFailurePolicy.rules[0].onExitCodes.values",
    ),
    "an operator that is none": (
        {"podFailurePolicy": failing(onExitCodes={"operator": "Is", "values": [1]})},
        "podFailurePolicy.rules[0].onExitCodes.operator",
    ),
    "codes of nobody": (
        {"podFailurePolicy": failing(onExitCodes={**CODES, "containerName": "trainer"})},
        "podFailurePolicy.rules[0].onExitCodes.containerName",
    ),
}


@pytest.mark.parametrize(("spec", "field"), REFUSED_JOBS.values(), ids=REFUSED_JOBS)
def test_a_rule_of_a_job_that_the_api_server_refuses_is_refused(spec, field):
    assert of_job(**spec) == [("job-policy", field)]


TAKEN_JOBS = {
    "limits of each index": {"backoffLimitPerIndex": 0, "maxFailedIndexes": 0, "completionMode": "Indexed"},
    "no limits": {"backoffLimit": 0, "activeDeadlineSeconds": 3600},
    "zero is not a failure": {"podFailurePolicy": failing(onExitCodes={"operator": "NotIn", "values": [0]})},
    "codes of a container": {"podFailurePolicy": failing(onExitCodes={**CODES, "containerName": "node"})},
    "a disruption": {
        "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]},
        "podReplacementPolicy": "Failed",
    },
    "odd types": {"podFailurePolicy": {"rules": [None, 1, {"action": 1, "onExitCodes": [], "onPodConditions": []}]}},
}


@pytest.mark.parametrize("spec", TAKEN_JOBS.values(), ids=TAKEN_JOBS)
def test_a_rule_of_a_job_that_kubernetes_takes_is_not_spoken_of(spec):
    assert of_job(**spec) == []


def of_jobset(*jobs, **spec):
    container = {"name": "c", "command": ["python", "x.py"]}
    document = jobset(*(replicated_job(name, container, completions=2) for name, _ in jobs), **spec)
    for replicated, (_, depends) in zip(document["spec"]["replicatedJobs"], jobs, strict=True):
        if depends is not None:
            replicated["dependsOn"] = [{"name": depends, "status": "Complete"}]
    return [(severity, field) for severity, rule, field in said(document) if rule == "jobset-policy"]


def rule(**members):
    return {"failurePolicy": {"rules": [{"name": "a", "action": "FailJobSet", **members}]}}


NODE = (("node", None),)
REFUSED_SETS = {
    "a coordinator that is not there": (
        NODE,
        {"coordinator": {"replicatedJob": "leader"}},
        "coordinator.replicatedJob",
    ),
    "a pod that is not there": (
        (("node", None),),
        {"coordinator": {"replicatedJob": "node", "podIndex": 3}},
        "coordinator.podIndex",
    ),
    "order by two ways": (
        (("a", None), ("b", "a")),
        {"startupPolicy": {"startupPolicyOrder": "InOrder"}},
        "replicatedJobs[b].dependsOn",
    ),
    "a subdomain with capitals": (NODE, {"network": {"subdomain": "Ring"}}, "network.subdomain"),
    "a manager without a path": (NODE, {"managedBy": "kueue"}, "managedBy"),
    "success of nobody": (NODE, {"successPolicy": {"targetReplicatedJobs": ["trainer"]}}, "successPolicy.targetRepl"),
    "a first one that waits": ((("node", "a"), ("a", None)), {}, "replicatedJobs[node].dependsOn"),
    "one that waits for nobody": ((("a", None), ("b", "c")), {}, "replicatedJobs[b].dependsOn[c].name"),
    "one that waits for itself": ((("a", None), ("b", "b")), {}, "replicatedJobs[b].dependsOn[b].name"),
    "one that waits for a later one": ((("a", None), ("b", "c"), ("c", None)), {}, "replicatedJobs[b].dependsOn[c]"),
    "a reason of pods": (NODE, rule(onJobFailureReasons=["OOMKilled"]), "failurePolicy.rules[a].onJobFailureReas"),
    "a rule for nobody": (NODE, rule(targetReplicatedJobs=["x"]), "failurePolicy.rules[a].targetReplicatedJobs[0]"),
    "a rule's name": (NODE, rule(name="my rule"), "failurePolicy.rules[my rule].name"),
    "two rules of one name": (
        NODE,
        {"failurePolicy": {"rules": [{"name": "a", "action": "FailJobSet"}] * 2}},
        "failurePolicy.rules[1].name",
    ),
}


@pytest.mark.parametrize(("jobs", "spec", "field"), REFUSED_SETS.values(), ids=REFUSED_SETS)
def test_a_policy_that_jobset_refuses_is_refused(jobs, spec, field):
    ((severity, place),) = of_jobset(*jobs, **spec)

    assert severity == "error"
    assert place.startswith(f"spec.{field}")


def test_a_policy_behind_a_gate_that_is_off_is_a_warning():
    assert [severity for severity, _ in of_jobset(*NODE, **rule(action="RestartJob"))] == ["warning"]
    assert [severity for severity, _ in of_jobset(*NODE, failurePolicy={"restartStrategy": "InPlaceRestart"})] == [
        "warning"
    ]


TAKEN_SETS = {
    "a coordinator, a subdomain and a manager": (
        NODE,
        {
            "coordinator": {"replicatedJob": "node", "podIndex": 1},
            "network": {"subdomain": "ring-1"},
            "managedBy": "jobset.sigs.k8s.io/jobset-controller",
        },
    ),
    "order by startup": ((("a", None), ("b", None)), {"startupPolicy": {"startupPolicyOrder": "InOrder"}}),
    "success of one": (NODE, {"successPolicy": {"operator": "All", "targetReplicatedJobs": ["node"]}}),
    "one behind another": ((("a", None), ("b", "a"), ("c", "a")), {}),
    "every reason": (
        NODE,
        rule(
            onJobFailureReasons=["BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes", "PodFailurePolicy"],
            targetReplicatedJobs=["node"],
            action="RestartJobSetAndIgnoreMaxRestarts",
        ),
    ),
    "rules without names": (NODE, {"failurePolicy": {"maxRestarts": 1, "rules": [{"action": "FailJobSet"}] * 2}}),
    "odd types": (NODE, {"failurePolicy": {"rules": [None, {"name": 1, "onJobFailureReasons": [1]}]}}),
}


@pytest.mark.parametrize(("jobs", "spec"), TAKEN_SETS.values(), ids=TAKEN_SETS)
def test_a_policy_that_jobset_takes_is_not_spoken_of(jobs, spec):
    assert of_jobset(*jobs, **spec) == []


def test_labels_that_no_pod_may_have_are_refused():
    training = replicated_job("node", {"name": "node", "command": ["python", "x.py"]})
    training["template"]["spec"]["template"]["metadata"] = {
        "labels": {"team": "my team", "app": "train"},
        "annotations": {"note": "any text at all"},
    }
    training["template"]["metadata"] = {"labels": {"a/b/c": "x"}}
    fields = [each.field for each in found("torch", jobset(training)) if each.rule == "core/label"]

    assert fields == [
        "spec.replicatedJobs[node].template.spec.template.metadata.labels.team",
        "spec.replicatedJobs[node].template.metadata.labels[a/b/c]",
    ]


def test_containers_and_init_containers_share_their_names():
    pod = {"initContainers": [{"name": "node", "command": ["fetch"]}, {"name": "other", "command": ["fetch"]}]}
    document = jobset(replicated_job("node", {"name": "node", "command": ["python", "x.py"]}, pod=pod))
    (field,) = [each.field for each in found("torch", document) if each.rule == "core/name"]

    assert field.endswith("initContainers[node].name")


def test_a_claim_of_the_jobset_is_mounted_and_has_a_name_of_its_own():
    shared = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    claims = [{"templates": [{"metadata": {"name": "work"}, "spec": shared}]}]
    mounts = {"volumeMounts": [{"name": "work", "mountPath": "/work"}]}

    def told(container, **pod):
        training = {"name": "node", "command": ["python", "x.py"], **container}
        document = jobset(replicated_job("node", training, pod=pod), volumeClaimPolicies=claims)
        return [each.message for each in found("torch", document) if each.rule == "core/volume-claim"]

    assert told(mounts) == []
    assert ["no container mounts it" in each for each in told({})] == [True]
    own = {"volumes": [{"name": "work", "emptyDir": {}}]}
    assert ["a volume of the pods has this name too" in each for each in told(mounts, **own)] == [True]


# -- where a TrainJob is told


TRAINER = {"command": ["torchrun", "x.py"], "resourcesPerNode": gpus(1)}


def patched(pod, job="node"):
    inside = {"replicatedJobs": [{"name": job, "template": {"spec": {"template": {"spec": pod}}}}]}
    return {"manager": "example.org/a", "trainingRuntimeSpec": {"template": {"spec": inside}}}


PLACE = (
    "spec.runtimePatches[example.org/a].trainingRuntimeSpec.template.spec.replicatedJobs[node]"
    ".template.spec.template.spec"
)


def test_what_a_patch_of_a_trainjob_writes_is_told_at_the_patch():
    document = trainjob(TRAINER)
    mount = {"name": "node", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    document["spec"]["runtimePatches"] = [patched({"nodeSelector": {"gpu": "A 100"}, "containers": [mount]})]

    assert said(document, runtime(command=["torchrun", "x.py"])) == [
        ("error", "placement", f"{PLACE}.nodeSelector.gpu"),
        ("error", "volume-mount", f"{PLACE}.containers[node].volumeMounts[/data].name"),
    ]


def test_a_patch_may_mount_a_volume_of_the_runtime_or_of_another_patch():
    document = trainjob(TRAINER)
    mount = {"name": "node", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    volume = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
    document["spec"]["runtimePatches"] = [patched({"containers": [mount]}), {**patched(volume), "manager": "b.org/b"}]

    assert said(document, runtime(command=["torchrun", "x.py"])) == []


def test_env_of_a_trainjob_is_told_at_its_own_place():
    source = {"resourceFieldRef": {"resource": "limits.nvidia.com/gpu"}}
    document = trainjob({**TRAINER, "env": [{"name": "GPUS", "valueFrom": source}]})

    assert said(document, runtime(command=["torchrun", "x.py"])) == [
        ("error", "env-source", "spec.trainer.env[GPUS].valueFrom.resourceFieldRef.resource")
    ]


def test_policies_of_a_runtime_are_told_at_the_job_that_uses_it():
    governing = runtime(command=["torchrun", "x.py"])
    governing["spec"]["template"]["spec"]["successPolicy"] = {"targetReplicatedJobs": ["trainer"]}

    ((severity, named, field),) = said(trainjob(TRAINER), governing)

    assert (severity, named, field) == (Severity.ERROR.value, "jobset-policy", "spec.runtimeRef.name")

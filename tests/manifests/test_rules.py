"""The check itself: each of these breakages of a good manifest must be found, with its place."""

from __future__ import annotations

import copy

import pytest

from tests.manifests import files, rules

TRL = "trl-qwen2.5-1.5b"


def jobs(runtime):
    return {job["name"]: job for job in runtime["spec"]["template"]["spec"]["replicatedJobs"]}


def container(runtime, job="node"):
    return jobs(runtime)[job]["template"]["spec"]["template"]["spec"]["containers"][0]


def labels(runtime, job):
    return jobs(runtime)[job]["template"]["metadata"]["labels"]


RUNTIME_BREAKAGES = {
    "a misspelt field": (lambda r: container(r).update(comand=["x"]), ".comand: no such field"),
    "a field of an older API": (
        lambda r: r["spec"]["mlPolicy"]["torch"].update(numProcPerNode="auto"),
        "numProcPerNode",
    ),
    "a bare dependency": (lambda r: jobs(r)["node"].update(dependsOn=["model-initializer"]), "is not an object"),
    "a dependency without a status": (lambda r: jobs(r)["node"]["dependsOn"][0].pop("status"), ".status: missing"),
    "a dependency on nothing": (lambda r: jobs(r)["node"]["dependsOn"][0].update(name="x"), "is no earlier job"),
    "an unknown status": (lambda r: jobs(r)["node"]["dependsOn"][0].update(status="Done"), "use Ready or Complete"),
    "a second trainer": (lambda r: labels(r, "model-initializer").update({rules.ANCESTOR: "trainer"}), "2 jobs are"),
    "an unknown step": (lambda r: labels(r, "model-initializer").update({rules.ANCESTOR: "model"}), "use one of"),
    "a renamed container": (lambda r: container(r).update(name="trainer"), "needs a container 'node'"),
    "a renamed volume": (lambda r: container(r)["volumeMounts"][0].update(name="workspace"), "is not a volume"),
    "an initializer without its mount": (
        lambda r: container(r, "model-initializer").pop("volumeMounts"),
        "volumeMount called 'initializer'",
    ),
    "no framework": (lambda r: r["metadata"]["labels"].clear(), "framework is missing"),
    "an unknown framework": (lambda r: r["metadata"]["labels"].update({rules.FRAMEWORK: "tlr"}), "'tlr' is none of"),
    "a number in env": (lambda r: container(r)["env"][0].update(value=2), "2 is not of type str"),
    "an env name twice": (lambda r: container(r)["env"].append(dict(container(r)["env"][0])), "appears twice"),
    "an image without a tag": (
        lambda r: container(r).update(image="ghcr.io/muster-dev/trl"),
        "is not an image with a tag",
    ),
    "a wrong quantity": (lambda r: container(r)["resources"]["limits"].update(memory="8 GB"), "is not a quantity"),
    "a wrong version": (lambda r: r.update(apiVersion="trainer.kubeflow.org/v1"), "is not a kind of ours"),
}

JOB_BREAKAGES = {
    "an unknown runtime": (lambda j: j["spec"]["runtimeRef"].update(name="x"), "'x' is not a runtime of ours"),
    "an initializer that the runtime lacks": (
        lambda j: j["spec"].update(initializer={"model": {}}),
        "no job model-init",
    ),
    "a name too long for its pods": (lambda j: j["metadata"].update(name="a" * 60), "63 are allowed"),
    "no label as a name": (lambda j: j["metadata"].update(name="My_Job"), "DNS label"),
    "two names": (lambda j: j["metadata"].update(generateName="a-"), "either name or generateName"),
    "a misspelt annotation": (
        lambda j: j["metadata"].update(annotations={"muster.dev/rendevous": "c10d"}),
        "means nothing to Muster",
    ),
    "an unknown rendezvous": (
        lambda j: j["metadata"].update(annotations={"muster.dev/rendezvous": "etcd"}),
        "'etcd' means nothing",
    ),
    "a string for a number": (lambda j: j["spec"]["trainer"].update(numNodes="2"), "'2' is not of type int"),
    "a truth value for a number": (lambda j: j["spec"]["trainer"].update(numNodes=True), "True is not of type int"),
    "a command that is not a list": (lambda j: j["spec"]["trainer"].update(command="trl sft"), "is not a list"),
}


def by_name(table):
    return pytest.mark.parametrize(("breakage", "said"), list(table.values()), ids=list(table))


@by_name(RUNTIME_BREAKAGES)
def test_a_broken_runtime_is_found(breakage, said):
    runtime = copy.deepcopy(files.runtimes()[TRL])
    breakage(runtime)
    assert any(said in problem for problem in rules.check(runtime, {}))


@by_name(JOB_BREAKAGES)
def test_a_broken_job_is_found(breakage, said):
    (job,) = files.documents(files.EXAMPLES[0])
    breakage(job)
    assert any(said in problem for problem in rules.check(job, files.runtimes()))


def test_a_patch_of_a_container_that_the_runtime_lacks_is_found():
    (mixed,) = (path for path in files.EXAMPLES if path.stem.endswith("mixed-documents"))
    job = files.documents(mixed)[-1]
    patched = job["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"][0]
    patched["template"]["spec"]["template"]["spec"]["containers"][0]["name"] = "main"
    assert rules.check(job, files.runtimes()) == ["spec.runtimePatches: the runtime has no container node/main"]

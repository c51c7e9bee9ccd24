"""What tests of samplers share: a runtime with a trainer and a vLLM server, and TrainJobs of it."""

from __future__ import annotations

from tests.frameworks.builders import enforce, found, gpus, jobset, jobset_of, replicated_job, runtime, trainjob

SAMPLER = {"muster.dev/role": "sampler"}
GRPO = ["torchrun", "-m", "trl.scripts.grpo", "--use_vllm"]
ARGS = ["--model_name_or_path=Qwen/Qwen2.5-0.5B", "--dataset_name=d", "--reward_funcs=accuracy_reward"]
URL = "--vllm_server_base_url=http://$(MUSTER_SAMPLER):8000"
ENDS = {"operator": "All", "targetReplicatedJobs": ["node"]}


def sampler(name="sampler", *, labels=SAMPLER, replicas=None, pod=None, spec=None, **container):
    """A replicated job that serves; `container` holds members of its container."""
    serving = {"name": "server", "image": "ghcr.io/muster-dev/vllm:0.1.0", "command": ["vllm", "serve"]}
    job = replicated_job(name, serving | {"resources": gpus(1)} | container, replicas=replicas, pod=pod, **(spec or {}))
    job["template"]["metadata"] = {"labels": dict(labels or {})}
    return job


def sampled(*samplers, ready=True, success=ENDS, gang=None, claims=None, restart="Never", **training):
    """A runtime with samplers; `training` holds members of the training container, and `pod` and `network`."""
    made = runtime("trl", **({"command": GRPO, "resources": gpus(1)} | training))
    spec = made["spec"]["template"]["spec"]
    (node,) = spec["replicatedJobs"]
    spec["replicatedJobs"] = [*(samplers or [sampler()]), node]
    node["template"]["spec"]["backoffLimit"] = 0
    node["template"]["spec"]["template"]["spec"]["restartPolicy"] = restart
    if ready:
        node["dependsOn"] = [{"name": spec["replicatedJobs"][0]["name"], "status": "Ready"}]
    spec |= {"successPolicy": success} if success else {}
    spec |= {"volumeClaimPolicies": claims} if claims else {}
    made["spec"] |= {"podGroupPolicy": gang} if gang else {}
    return made


def grpo(*more, command=None, name="job", annotations=None, args=ARGS, **trainer):
    """A TrainJob of a runtime with a sampler."""
    own = {"args": [*args, *more], **({"command": command} if command else {}), **trainer}
    return trainjob(own, name=name, annotations=annotations)


def applied(job=None, governing=None):
    """What Muster makes of a TrainJob and its JobSet: arguments, env and container of the sampler, and all changes."""
    governing = governing or sampled()
    first = enforce("trl", job or grpo(), governing)
    made = jobset_of(first.document, governing)
    second = enforce("trl", made, governing, owner=first.document)
    return first, second


def serving_in(outcome, name="sampler"):
    """The container of the sampler in a JobSet."""
    jobs = outcome.document["spec"]["replicatedJobs"]
    (job,) = [each for each in jobs if each["name"] == name]
    return job["template"]["spec"]["template"]["spec"]["containers"][0]


def told(job=None, governing=None):
    """(severity, rule) of each finding of a TrainJob once it was mutated, but those about the number of CPUs."""
    governing = governing or sampled()
    document = enforce("trl", job or grpo(), governing).document
    return [(each.severity.value, each.rule) for each in found("trl", document, governing)]


def errors(job=None, governing=None):
    """Rules of the errors of a TrainJob once it was mutated."""
    return [rule for severity, rule in told(job, governing) if severity == "error"]


def by_hand(*samplers, **more):
    """A JobSet that people write themselves, with a trainer and samplers."""
    governing = sampled(*samplers, **more)
    spec = governing["spec"]["template"]["spec"]
    node = spec["replicatedJobs"][-1]["template"]
    node["metadata"] = {"labels": {"muster.dev/role": "trainer"}}
    node["spec"]["template"]["spec"]["containers"][0]["args"] = list(ARGS)
    jobs = spec.pop("replicatedJobs")
    return jobset(*jobs, framework="trl", **spec)

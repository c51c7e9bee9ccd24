"""What is told about a training and its sampler that would not work together."""

from __future__ import annotations

import json

import pytest
from msgspec import structs

from muster.strategies.frameworks.samplers.sampled_strategy import SampledTRLStrategy
from muster.strategies.platform.profiles import Profile
from muster.strategies.platform.supplies import Supply
from tests.frameworks.builders import enforce, found, gpus, job_of, jobset_of
from tests.frameworks.sampled_jobs import ARGS, GRPO, by_hand, errors, grpo, sampled, sampler, serving_in, told

SHELL = f"trl grpo {' '.join(ARGS)}"
MODEL = "Qwen/Qwen2.5-0.5B"
SHARED = [{"name": "out", "persistentVolumeClaim": {"claimName": "out"}}]
MOUNT = [{"name": "out", "mountPath": "/out"}]
ASYNC = {"command": ["python", "t.py"], "args": ["--max_staleness=4", "--use_peft", "--output_dir=/out/run"]}
ONE_CLAIM = [{"name": "g", "resourceClaimName": "one"}]
CLAIMED = {"resources": {"claims": [{"name": "g"}]}, "pod": {"resourceClaims": ONE_CLAIM}}


def hand(*samplers, **more):
    """Rules of the errors of a JobSet of one's own, once it was mutated."""
    document = by_hand(*samplers, **more)
    mutated = enforce("trl", document).document
    return [each.rule for each in found("trl", mutated) if each.severity.value == "error"]


def test_a_training_with_a_sampler_as_it_should_be_has_no_finding():
    assert told() == []
    assert told(grpo(name=None)) == []


def test_a_jobset_of_ones_own_as_it_should_be_has_no_finding():
    assert found("trl", enforce("trl", by_hand()).document) == []


def test_a_training_on_cpus_that_leaves_the_mode_to_muster_asks_its_sampler_and_is_not_refused():
    written = grpo("--use_cpu", "--bf16=false", resourcesPerNode={"limits": {"cpu": 2}})
    assert "trl/vllm-cpu" not in errors(written, sampled(resources={"limits": {"cpu": 2}}))


REFUSED = {
    "colocate in spite of a sampler": (grpo("--vllm_mode=colocate"), {}, ["sampler/mode"]),
    "a mode that TRL does not have": (grpo("--vllm_mode=remote"), {}, ["sampler/mode"]),
    "a port that is none": (grpo("--vllm_server_base_url=http://job-sampler-0-0.job:99999999"), {}, ["sampler/url"]),
    "a scheme without a port": (grpo("--vllm_server_base_url=tcp://job-sampler-0-0.job"), {}, ["sampler/url"]),
    "the trainer's own pod": (grpo("--vllm_server_base_url=http://localhost:8000"), {}, ["sampler/url"]),
    "its own pod by default": (grpo("--vllm_server_host=0.0.0.0"), {}, ["sampler/url"]),
    "a pod of the training": (grpo("--vllm_server_base_url=http://job-node-0-0.job:8000"), {}, ["sampler/url"]),
    "another pod of the sampler": (grpo("--vllm_server_host=job-sampler-1-0.job"), {}, ["sampler/url"]),
    "another port": (grpo("--vllm_server_base_url=http://job-sampler-0-0.job:8001"), {}, ["sampler/url"]),
    "no port": (grpo("--vllm_server_base_url=http://job-sampler-0-0.job"), {}, ["sampler/url"]),
    **{
        f"another port behind {name}": (grpo(f"--vllm_server_base_url=http://{name}:8001"), {}, ["sampler/url"])
        for name in ("$(MUSTER_SAMPLER)", "$MUSTER_SAMPLER", "${MUSTER_SAMPLER}")
    },
    "another port beside the host": (
        grpo("--vllm_server_host=job-sampler-0-0.job", "--vllm_server_port=1"),
        {},
        ["sampler/url"],
    ),
    "no URL": (grpo("--vllm_server_base_url=job-sampler"), {}, ["sampler/url"]),
    "a shell's text": (grpo(command=["bash", "-c", f"{SHELL} --use_vllm"], args=[]), {}, ["sampler/url"]),
    "a shell's text with the mode": (
        grpo(command=["bash", "-c", f"trl grpo --use_vllm --vllm_mode server {' '.join(ARGS)}"], args=[]),
        {},
        ["sampler/url"],
    ),
    "another model": (grpo(), {"args": ["Qwen/Qwen2.5-7B"]}, ["sampler/model"]),
    "another revision": (grpo(), {"args": [MODEL, "--revision=v2"]}, ["sampler/model"]),
    "two replicas": (grpo(), {"replicas": 2}, ["sampler/several"]),
    "two pods": (grpo(), {"spec": {"parallelism": 2, "completions": 2}}, ["sampler/several"]),
    "loopback": (grpo(), {"args": ["--host=127.0.0.1"]}, ["sampler/reach"]),
    "a socket": (grpo(), {"args": ["--uds=/tmp/s"]}, ["sampler/reach"]),
    "gRPC": (grpo(), {"args": ["--grpc"]}, ["sampler/reach"]),
    "a key": (grpo(), {"args": ["--api-key=k"]}, ["sampler/reach"]),
    "a key in the env": (grpo(), {"env": [{"name": "VLLM_API_KEY", "value": "k"}]}, ["sampler/reach"]),
    "closed endpoints": (grpo(), {"env": [{"name": "VLLM_SERVER_DEV_MODE", "value": "0"}]}, ["sampler/env"]),
    "no way of weights in a shell": (
        grpo(),
        {"command": ["bash", "-c", f"vllm serve {MODEL} --logprobs-mode processed_logprobs"]},
        ["sampler/transfer"],
    ),
    "more GPUs than its role has": (grpo(), {"args": ["--tensor-parallel-size=4"]}, ["vllm/parallel-size"]),
    "a misspelt flag": (grpo(), {"args": ["--max-model-length=1"]}, ["vllm/unknown-flag"]),
    "too few adapters": (
        grpo(command=["python", "t.py"], args=["--max_staleness=4", "--use_peft"]),
        {"args": [MODEL, "--enable-lora", "--max-loras=5"]},
        ["sampler/lora"],
    ),
    "too low a rank": (
        grpo(command=["python", "t.py"], args=["--max_staleness=4", "--lora_r=64"]),
        {"args": [MODEL, "--enable-lora", "--max-lora-rank=32"]},
        ["sampler/lora"],
    ),
    "no adapters": (
        grpo(command=["python", "t.py"], args=["--max_staleness=4", "--lora_r=8"]),
        {"args": [MODEL, "--no-enable-lora"]},
        ["sampler/lora"],
    ),
    "no volume": (grpo(**ASYNC), {}, ["sampler/output"]),
}


@pytest.mark.parametrize(("job", "beside", "rules"), REFUSED.values(), ids=REFUSED)
def test_a_job_that_would_be_wrong_or_hang_is_refused_by_one_rule(job, beside, rules):
    assert errors(job, sampled(sampler(**beside))) == rules


AROUND = {
    "coscheduling": ({"gang": {"coscheduling": {}}}, ["sampler/gang"]),
    "volcano": ({"gang": {"volcano": {}}}, ["sampler/gang"]),
    "a gang without an order": ({"gang": {"coscheduling": {}}, "ready": False}, []),
    "success of all": ({"success": None}, ["sampler/end"]),
    "success of the sampler": ({"success": {"operator": "All", "targetReplicatedJobs": ["sampler"]}}, ["sampler/end"]),
    "success of any": ({"success": {"operator": "Any"}}, []),
}


@pytest.mark.parametrize(("governing", "rules"), AROUND.values(), ids=AROUND)
def test_a_runtime_in_which_a_pair_never_starts_or_never_ends_is_refused(governing, rules):
    assert errors(governing=sampled(**governing)) == rules


def test_one_claim_for_both_roles_is_refused_where_weights_travel_by_nccl():
    assert hand(sampler(**CLAIMED), **CLAIMED) == ["sampler/device"]
    files = {"args": [MODEL, "--weight-transfer-config", json.dumps({"backend": "files"})]}
    assert hand(sampler(**CLAIMED, **files), **CLAIMED) == []


WARNED = {
    "a folder and a name": (grpo(), {"args": ["/models/other"]}, "sampler/model"),
    "a model that cannot be seen": (
        grpo(args=["--model_name_or_path=$(MODEL)", "--dataset_name=d", "--reward_funcs=r.f"]),
        {},
        "sampler/model",
    ),
    "another type": (grpo(), {"args": ["--dtype=float16"]}, "sampler/dtype"),
    "raw log-probabilities": (grpo(), {"args": ["--logprobs-mode=raw_logprobs"]}, "sampler/logprobs"),
    "no vLLM": (grpo(command=["trl", "grpo"]), {}, "sampler/idle"),
    "a method without samples": (grpo(command=["trl", "sft"], args=ARGS[:2]), {}, "sampler/idle"),
    "a sampler without a GPU": (grpo(), {"resources": {}}, "sampler/device"),
}


@pytest.mark.parametrize(("job", "beside", "rule"), WARNED.values(), ids=WARNED)
def test_what_may_be_wrong_is_a_warning(job, beside, rule):
    assert ("warning", rule) in told(job, sampled(sampler(**beside)))
    assert errors(job, sampled(sampler(**beside))) == []


def test_an_address_that_may_be_a_service_in_front_of_the_sampler_is_a_note():
    assert ("note", "sampler/url") in told(grpo("--vllm_server_base_url=http://service:8000"))


def test_a_trainer_that_starts_again_alone_is_a_warning():
    assert told(governing=sampled(restart="OnFailure")) == [("warning", "sampler/restart")]


def test_a_mode_in_a_file_is_a_note():
    assert told(grpo("--config", "grpo.yaml")) == [("note", "sampler/mode")]


def test_trainers_without_a_gpu_cannot_send_weights():
    assert "sampler/device" in errors(grpo("--use_cpu", "--bf16=false"), sampled(resources={"limits": {"cpu": 4}}))


ACCEPTED = {
    "the sampler by its whole name": (grpo("--vllm_server_base_url=http://job-sampler-0-0.job.default.svc:8000"), {}),
    "the variable in a shell": (
        grpo(
            command=["bash", "-c"],
            args=[f"{SHELL} --use_vllm --vllm_mode server --vllm_server_base_url http://$MUSTER_SAMPLER:8000"],
        ),
        {},
    ),
    "the variable in braces": (
        grpo(
            command=["bash", "-c"],
            args=[f'trl grpo --use_vllm --vllm_mode server --vllm_server_host "${{MUSTER_SAMPLER}}" {" ".join(ARGS)}'],
        ),
        {},
    ),
    "a variable that only the pod knows": (grpo("--vllm_server_base_url=$(WHERE)"), {}),
    "the same folder": (
        grpo(args=["--model_name_or_path=/m/", "--dataset_name=d", "--reward_funcs=r.f"]),
        {"args": ["/m"]},
    ),
    "a folder of the model's name": (grpo(), {"args": ["/models/qwen2.5-0.5b"]}),
    "the same revision": (grpo("--model_revision=v2"), {"args": [MODEL, "--revision=v2"]}),
    "another backend": (grpo(), {"args": ["--weight-transfer-config", '{"backend": "files"}']}),
    "trl's own server": (grpo(), {"command": ["trl", "vllm-serve", "--model", MODEL]}),
    "a script of the user's own": (grpo(command=["python", "t.py"], args=["--vllm_mode", "colocate"]), {}),
    "a sampler that is no vLLM": (grpo("--vllm_mode=server", "--vllm_server_host=x"), {"command": ["./serve"]}),
    "LoRA that is merged": (grpo("--use_peft", "--lora_r=64"), {}),
    "enough adapters": (
        grpo(command=["python", "t.py"], args=["--max_staleness=1", "--use_peft"]),
        {"args": [MODEL, "--enable-lora", "--max-loras=3"]},
    ),
    "one volume for both": (grpo(**ASYNC), {"volumeMounts": MOUNT, "pod": {"volumes": SHARED}}),
    "engines on several pods": (
        grpo(),
        {
            "spec": {"parallelism": 2, "completions": 2},
            "args": ["--nnodes=2", "--node-rank=$(RANK)", "--tensor-parallel-size=2"],
        },
    ),
}


@pytest.mark.parametrize(("job", "beside"), ACCEPTED.values(), ids=ACCEPTED)
def test_what_works_or_cannot_be_known_has_no_error(job, beside):
    governing = sampled(sampler(**beside), volumeMounts=MOUNT, pod={"volumes": SHARED})
    assert errors(job, governing) == []


APART = {
    "an emptyDir": (MOUNT, [{"name": "out", "emptyDir": {}}]),
    "another claim": (MOUNT, [{"name": "out", "persistentVolumeClaim": {"claimName": "mine"}}]),
    "another path": ([{"name": "out", "mountPath": "/out/run"}], SHARED),
    "another folder of it": ([{**MOUNT[0], "subPath": "a"}], SHARED),
}


@pytest.mark.parametrize(("mounts", "held"), APART.values(), ids=APART)
def test_adapters_on_a_volume_that_the_sampler_does_not_have_are_refused(mounts, held):
    serving = sampler(volumeMounts=mounts, pod={"volumes": held})
    assert errors(grpo(**ASYNC), sampled(serving, volumeMounts=MOUNT, pod={"volumes": SHARED})) == ["sampler/output"]


def test_a_claim_that_jobset_makes_for_all_pods_is_one_volume():
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    claims = [{"templates": [{"metadata": {"name": "out"}, "spec": spec}]}]
    governing = sampled(sampler(volumeMounts=MOUNT), volumeMounts=MOUNT, claims=claims)
    assert errors(grpo(**ASYNC), governing) == []


def test_two_samplers_are_refused_until_one_is_named():
    two = sampled(sampler("sampler-a"), sampler("sampler-b"))
    assert errors(governing=two) == ["sampler/several"]
    assert errors(grpo("--vllm_mode=server", "--vllm_server_host=job-sampler-b-0-0.job"), two) == []


def test_what_is_told_names_both_fields_and_the_cure():
    governing = sampled(sampler(args=["Qwen/Qwen2.5-7B"]))
    document = enforce("trl", grpo(), governing).document
    (only,) = found("trl", document, governing)
    assert only.field == "spec.trainer.args[0]"
    assert str(only.value) == "--model_name_or_path Qwen/Qwen2.5-0.5B"
    assert "the sampler, which serves Qwen/Qwen2.5-7B; name one model in both" in only.message


def test_what_is_wrong_with_the_runtime_is_told_at_the_jobs_runtime():
    governing = sampled(sampler(args=["--host=127.0.0.1"]))
    document = enforce("trl", grpo(), governing).document
    (only,) = found("trl", document, governing)
    assert (only.field, only.value) == ("spec.runtimeRef.name", "runtime")
    assert only.message.startswith("in this runtime, replicated job sampler, args: the sampler answers its own")


ODD = (
    {"successPolicy": {"operator": "All", "targetReplicatedJobs": 3}},
    {"successPolicy": 3},
    {"successPolicy": {"operator": 1, "targetReplicatedJobs": "x"}},
    {"volumeClaimPolicies": {"a": 1}},
    {"volumeClaimPolicies": [{"templates": 1}, 2]},
)


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_members_of_odd_types_end_no_decision(odd):
    governing = sampled(sampler(volumeMounts=[3, {"name": 1}], image=None))
    governing["spec"]["template"]["spec"] |= odd
    governing["spec"]["podGroupPolicy"] = 7
    governing["spec"]["template"]["spec"]["replicatedJobs"][1]["dependsOn"] = [1, {"name": None}]
    told(grpo(**ASYNC), governing)
    governing["spec"]["template"]["spec"]["replicatedJobs"][1]["dependsOn"] = 3
    told(grpo(), governing)
    hand(sampler(volumeMounts={"a": 1}, resources=gpus(1)), command=GRPO)


def test_a_password_in_a_url_is_not_repeated():
    governing = sampled()
    document = enforce("trl", grpo("--vllm_server_base_url=http://me:hunter2@elsewhere:8000"), governing).document
    (only,) = found("trl", document, governing)
    assert only.rule == "sampler/url"
    assert "hunter2" not in f"{only.value}{only.message}"


@pytest.mark.parametrize("port", ["0", "65536", "9" * 5000])
def test_no_address_is_written_for_a_port_that_is_none(port):
    document = enforce("trl", by_hand(sampler(args=["--port", port]))).document
    assert not any(
        "vllm_server" in word
        for word in document["spec"]["replicatedJobs"][-1]["template"]["spec"]["template"]["spec"]["containers"][0][
            "args"
        ]
    )
    assert hand(sampler(args=["--port", port])) == ["sampler/url"]


@pytest.mark.parametrize("host", ["", "me:hunter2@sampler:8000", "//x", "127.0.0.1", "-a", "a" * 300])
def test_no_address_is_written_for_a_variable_that_leads_elsewhere(host):
    env = [{"name": "MUSTER_SAMPLER", "value": host}]
    (only,) = [
        each for each in found("trl", enforce("trl", by_hand(env=env)).document) if each.severity.value == "error"
    ]
    assert "MUSTER_SAMPLER does not hold the host name" in only.message
    assert errors(grpo(), sampled(env=env)) == ["sampler/url"]


def test_no_address_is_written_for_a_variable_that_leads_to_another_pod_of_the_job():
    env = [{"name": "MUSTER_SAMPLER", "value": "job-node-0-0.job"}]
    assert errors(grpo(), sampled(env=env)) == ["sampler/url"]


@pytest.mark.parametrize(
    "host", ["rollouts.team-a.svc", "job-sampler-0-0.job", "job-sampler-0-0.job.team-a.svc", "$(HOST)"]
)
def test_an_address_is_written_for_a_variable_that_may_lead_to_the_sampler(host):
    env = [{"name": "MUSTER_SAMPLER", "value": host}]
    assert hand(env=env) == []


def test_many_replicated_jobs_beside_a_training_cost_little():
    several = [sampler(f"sampler-{number}") for number in range(200)]
    (only,) = [each for each in _messages(sampled(*several)) if "sampler-0" in each]
    assert only.count("sampler-") == 16


def _messages(governing):
    return [each.message for each in found("trl", grpo(), governing)]


def _by_files(mine="/out/w", theirs="", *, mounts=MOUNT, args=(), more=()):
    held = {"volumeMounts": mounts, "pod": {"volumes": SHARED}, "args": list(args)}
    env = [{"name": "MUSTER_WEIGHTS_FOLDER", "value": theirs}] if theirs else []
    cpu = {"resources": {"limits": {"cpu": 4}}}
    governing = sampled(sampler(**held, **cpu, env=env), volumeMounts=MOUNT, pod={"volumes": SHARED}, **cpu)
    own = [{"name": "MUSTER_WEIGHTS_FOLDER", "value": mine}] if mine else []
    return errors(grpo("--use_cpu", "--bf16=false", *more, env=own), governing)


def test_weights_by_files_need_no_gpu_and_one_folder_for_both_roles():
    assert _by_files() == []
    assert _by_files(theirs="/in/w", mounts=[{"name": "out", "mountPath": "/in"}]) == []
    assert _by_files(theirs="/in", mounts=[{"name": "out", "mountPath": "/in", "subPath": "w"}]) == []
    assert _by_files(theirs="/out/other") == ["sampler/output"]
    assert _by_files(mounts=[]) == ["sampler/output"]


def test_what_a_sampler_of_files_refuses_at_its_start_is_refused_before():
    assert _by_files(args=["--data-parallel-size=2"]) == ["sampler/transfer"]
    assert _by_files(args=["--quantization=fp8"]) == ["sampler/transfer"]
    assert _by_files("shared/weights") == ["sampler/transfer"]


def test_a_quantization_that_only_the_pod_knows_is_not_refused():
    assert _by_files(args=["--quantization=$(Q)"]) == []


def test_adapters_that_nobody_sends_are_off_in_a_sampler_on_cpus_whose_weights_are_compared():
    assert _by_files(args=["--enable-lora"]) == ["sampler/whole-weights"]
    assert _by_files(args=["--no-enable-lora"]) == []
    assert _by_files(args=["--enable-lora"], more=["--use_peft"]) == ["sampler/whole-weights"]
    assert _by_files(args=["--enable-lora"], more=["--fsdp=full_shard"]) == []
    assert _by_files(args=["--enable-lora"], more=["--config", "f.yaml"]) == []


def test_adapters_may_be_on_in_a_sampler_with_a_gpu():
    env = [{"name": "MUSTER_WEIGHTS_FOLDER", "value": "/out/w"}]
    held = {"volumeMounts": MOUNT, "pod": {"volumes": SHARED}}
    assert told(grpo(env=env), sampled(sampler(args=["--enable-lora"], **held), **held)) == []


def test_a_trainer_that_sends_files_may_start_again_alone():
    env = [{"name": "MUSTER_WEIGHTS_FOLDER", "value": "/out/w"}]
    held = {"volumeMounts": MOUNT, "pod": {"volumes": SHARED}}
    assert told(grpo(env=env), sampled(sampler(**held), restart="OnFailure", **held)) == []


def test_a_way_of_weights_of_which_only_one_role_knows_is_refused():
    files, nccl = (f"--weight-transfer-config={json.dumps({'backend': each})}" for each in ("muster_files", "nccl"))
    assert _by_files(mine="", args=[files]) == ["sampler/transfer"]
    assert "sampler/transfer" in _by_files(args=[nccl])


OBSTACLES = {
    "no host names": (grpo(), sampled(network={"enableDNSHostnames": False}), "its pod has no host name"),
    "a program": (grpo(), sampled(sampler(command=["./serve"])), "it does not read the sampler's program"),
    "a file": (grpo(), sampled(sampler(args=["--config", "f.yaml"])), "port stands where admission cannot see it"),
    "a shell": (
        grpo(command=["sh", "-c", f"{SHELL} --use_vllm"], args=[]),
        sampled(),
        "cannot write into this command",
    ),
}


@pytest.mark.parametrize(("job", "governing", "why"), OBSTACLES.values(), ids=OBSTACLES)
def test_it_is_told_why_muster_does_not_write_the_url_and_what_to_write(job, governing, why):
    document = enforce("trl", job, governing).document
    (only,) = [each for each in found("trl", document, governing) if each.rule == "sampler/url"]
    assert why in only.message
    assert "--vllm_server_base_url http://" in only.message


def test_a_claim_of_the_samplers_own_counts_for_its_parallel_size():
    pod = {"resourceClaims": [{"name": "g", "resourceClaimTemplateName": "four"}]}
    governing = sampled(sampler(resources={"claims": [{"name": "g"}]}, pod=pod))
    made = jobset_of(enforce("trl", grpo(), governing).document, governing)
    second = enforce("trl", made, governing, owner=grpo(), claims={"four": 4})
    args = serving_in(second)["args"]
    assert "--tensor-parallel-size" not in args, "4 does not divide the 14 heads of the model"
    other = grpo(args=["--model_name_or_path=Qwen/Qwen2.5-7B", "--dataset_name=d"])
    made = jobset_of(enforce("trl", other, governing).document, governing)
    args = serving_in(enforce("trl", made, governing, owner=other, claims={"four": 4}))["args"]
    assert args[args.index("--tensor-parallel-size") + 1] == "4"


def _with_profiles(node, serving):
    """What is told of a job whose roles ask for the profiles of these names."""
    key = "muster.dev/claim-profile"
    governing = sampled(sampler(resources={}), resources={})
    for each, name in zip(governing["spec"]["template"]["spec"]["replicatedJobs"], (serving, node), strict=True):
        each["template"]["metadata"]["annotations"] = {key: name}
    profiles = {
        "slot": Profile("slot", "gpu.example.com", sharing="shared", max_sessions=4),
        "whole": Profile("whole", "gpu.example.com"),
    }
    job = structs.replace(job_of(grpo(), governing), supply=Supply(profiles=profiles))
    strategy = SampledTRLStrategy()
    strategy.enforce_command(job, job.changes)
    return [(each.severity.value, each.rule) for each in strategy.validate(job)]


def test_one_shared_profile_for_both_roles_may_be_one_gpu():
    assert ("warning", "sampler/device") in _with_profiles("slot", "slot")
    assert _with_profiles("slot", "whole") == []
    assert _with_profiles("whole", "whole") == []

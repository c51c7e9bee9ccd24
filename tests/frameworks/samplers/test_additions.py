"""What Muster writes on both sides, so that a training finds its sampler and the sampler serves it."""

from __future__ import annotations

import copy

import pytest

from tests.frameworks.builders import enforce, gpus, jobset_of
from tests.frameworks.sampled_jobs import ARGS, GRPO, URL, applied, by_hand, grpo, sampled, sampler, serving_in

LAUNCHES = {
    "the runtime's command": {},
    "trl grpo": {"command": ["trl", "grpo", "--use_vllm"]},
    "torchrun": {"command": ["torchrun", "--nproc_per_node=2", "-m", "trl.scripts.grpo", "--use_vllm=true"]},
    "torchrun with a file": {"command": ["torchrun", "/x/trl/scripts/grpo.py", "--use_vllm"]},
    "accelerate": {"command": ["accelerate", "launch", "--num_processes", "1", "-m", "trl.scripts.grpo", "--use-vllm"]},
    "python": {"command": ["python", "-m", "trl.scripts.grpo", "--use_vllm", "yes"]},
    "behind nohup": {"command": ["nohup", "trl", "grpo", "--use_vllm"]},
    "rloo": {"command": ["trl", "rloo", "--use_vllm"]},
    "all of it in the command": {"command": ["trl", "grpo", "--use_vllm", *ARGS], "args": []},
    "the first argument": {"args": ["grpo", *ARGS, "--use_vllm"], "command": ["trl"]},
}


@pytest.mark.parametrize("launch", LAUNCHES.values(), ids=LAUNCHES)
def test_a_training_with_a_sampler_is_told_where_it_is_however_it_is_started(launch):
    first, _ = applied(grpo(**launch))
    assert first.argv[-2:] == ["--vllm_mode=server", URL]


@pytest.mark.parametrize("mode", ["--vllm_mode=server", "--vllm-mode=server"])
def test_a_mode_that_the_job_gives_is_not_given_again(mode):
    first, _ = applied(grpo(mode))
    assert first.argv[-2:] == [mode, URL]


def test_a_url_that_the_job_gives_is_kept_and_the_mode_follows_from_it():
    first, _ = applied(grpo("--vllm_server_base_url=http://job-sampler-0-0.job:8000"))
    assert first.argv[-2:] == ["--vllm_server_base_url=http://job-sampler-0-0.job:8000", "--vllm_mode=server"]


def test_the_pods_of_the_training_know_the_name_of_their_sampler():
    _, second = applied()
    assert second.env["MUSTER_SAMPLER"] == "job-sampler-0-0.job"


def test_a_subdomain_is_part_of_the_name():
    _, second = applied(governing=sampled(network={"subdomain": "net"}))
    assert second.env["MUSTER_SAMPLER"] == "job-sampler-0-0.net"


def test_a_name_that_is_still_to_be_generated_is_written_on_the_jobset():
    governing = sampled()
    first = enforce("trl", grpo(name=None), governing)
    assert first.argv[-1] == URL
    named = copy.deepcopy(first.document)
    named["metadata"] = {"name": "job-x7k2p"}
    second = enforce("trl", jobset_of(named, governing), governing, owner=named)
    assert second.env["MUSTER_SAMPLER"] == "job-x7k2p-sampler-0-0.job-x7k2p"


def test_the_sampler_gets_what_trl_needs():
    _, second = applied()
    container = serving_in(second)
    assert container["command"] == ["vllm", "serve"]
    assert container["args"] == [
        *("--model", "Qwen/Qwen2.5-0.5B", "--weight-transfer-config", '{"backend":"nccl"}'),
        *("--logprobs-mode", "processed_logprobs", "--dtype", "bfloat16"),
    ]
    assert container["env"] == [{"name": "VLLM_SERVER_DEV_MODE", "value": "1"}]
    assert container["readinessProbe"]["httpGet"] == {"path": "/health", "port": 8000}


def test_what_the_sampler_has_is_kept():
    own = ["Qwen/Qwen2.5-0.5B", "--logprobs-mode=processed_logprobs", "--dtype", "half", "--port=9000"]
    own += ["--weight-transfer-config", '{"backend": "files"}']
    probe = {"exec": {"command": ["true"]}}
    first, second = applied(governing=sampled(sampler(args=own, livenessProbe=probe)))
    assert first.argv[-1] == URL.replace("8000", "9000")
    assert serving_in(second)["args"] == own
    assert serving_in(second)["livenessProbe"] == probe


def test_a_sampler_uses_the_gpus_of_its_own_role():
    governing = sampled(sampler(resources=gpus(2), args=["Qwen/Qwen2.5-7B"]), resources=gpus(8))
    _, second = applied(grpo(args=["--model_name_or_path=Qwen/Qwen2.5-7B", "--dataset_name=d"]), governing)
    args = serving_in(second)["args"]
    assert args[args.index("--tensor-parallel-size") + 1] == "2"


def test_a_revision_that_is_trained_is_served():
    _, second = applied(grpo("--model_revision=abc"))
    args = serving_in(second)["args"]
    assert args[args.index("--revision") + 1] == "abc"


@pytest.mark.parametrize(
    ("flags", "dtype"),
    [
        (["--fp16", "--bf16", "false"], "float16"),
        (["--bf16", "false"], "float32"),
        (["--bf16=false", "--dtype=float16"], "float16"),
        (["--bf16=false", "--dtype=auto"], None),
        (["--bf16=true", "--dtype=float32"], "bfloat16"),
    ],
)
def test_the_sampler_computes_as_the_trainer_does(flags, dtype):
    _, second = applied(grpo(*flags))
    args = serving_in(second)["args"]
    assert ("--dtype" in args) == (dtype is not None)
    assert dtype is None or args[args.index("--dtype") + 1] == dtype


def test_a_training_that_nothing_makes_wait_is_given_patience():
    first, _ = applied(governing=sampled(ready=False))
    assert first.argv[-1] == "--vllm_server_timeout=1800"
    first, _ = applied(grpo("--vllm_server_timeout=600"), sampled(ready=False))
    assert first.argv[-1] == URL


def test_a_model_in_a_variable_of_the_job_is_served():
    job = grpo(args=["--model_name_or_path=$(MODEL)", "--dataset_name=d"], env=[{"name": "MODEL", "value": "m"}])
    _, second = applied(job)
    assert serving_in(second)["args"][:2] == ["--model", "m"]


def test_a_script_of_the_users_own_is_not_changed_and_its_sampler_is_completed():
    first, second = applied(grpo(command=["python", "train.py"], args=["--anything"]))
    assert first.argv == ["python", "train.py", "--anything"]
    assert second.env["MUSTER_SAMPLER"] == "job-sampler-0-0.job"
    assert "--weight-transfer-config" in serving_in(second)["args"]
    assert "--model" not in serving_in(second)["args"]


def test_adapters_of_a_script_with_trls_own_flags_are_held():
    script = grpo(command=["python", "t.py"], args=["--max_staleness=2", "--use_peft", "--lora_r", "24"])
    _, second = applied(script)
    container = serving_in(second)
    assert container["args"][-5:] == ["--enable-lora", "--max-loras", "4", "--max-lora-rank", "32"]
    assert {"name": "VLLM_ALLOW_RUNTIME_LORA_UPDATING", "value": "True"} in container["env"]


def test_the_annotation_asks_for_adapters_where_the_script_cannot_be_read():
    annotations = {"muster.dev/vllm-features": "lora"}
    _, second = applied(grpo(command=["python", "t.py"], args=[], annotations=annotations))
    assert serving_in(second)["args"][-3:] == ["--enable-lora", "--max-loras", "6"]


UNTOUCHED = {
    "a method that samples nothing": ({"command": ["trl", "sft"]}, {}),
    "no vLLM": ({"command": ["trl", "grpo"]}, {}),
    "colocate": ({"command": ["trl", "grpo", "--use_vllm", "--vllm_mode=colocate"]}, {}),
    "a judge": ({}, {"name": "judge", "labels": None, "args": ["Qwen/Qwen2.5-0.5B"]}),
    "a labelled judge": ({}, {"name": "judge"}),
    "a server of another model": ({}, {"name": "helper", "labels": None, "args": ["other/model"]}),
    "no server": ({}, {"name": "evaluator", "labels": None, "command": ["python", "eval.py"]}),
    "another role": ({}, {"labels": {"muster.dev/role": "trainer"}}),
}


@pytest.mark.parametrize(("job", "beside"), UNTOUCHED.values(), ids=UNTOUCHED)
def test_what_is_no_sampler_of_the_training_is_not_touched(job, beside):
    first, second = applied(grpo(**job), sampled(sampler(**beside)))
    assert not [word for word in first.argv if "vllm_server" in word or word == "--vllm_mode=server"]
    rules = {change.rule for change in (*first.changes, *second.changes)}
    assert not [rule for rule in rules if rule.startswith("sampler/")]


RECOGNISED = {
    "a label": {"name": "x", "args": ["other/model"]},
    "the framework's label": {"name": "x", "labels": {"trainer.kubeflow.org/framework": "vllm"}},
    "a name": {"name": "rollout-0", "labels": None},
    "the model": {"name": "vllm", "labels": None, "args": ["qwen/qwen2.5-0.5b"]},
    "the image's own entrypoint": {"name": "s", "labels": None, "command": None, "image": "vllm/vllm-openai:v0.31.0"},
    "the module": {"name": "s", "labels": None, "command": ["python3", "-m", "vllm.entrypoints.openai.api_server"]},
    "a shell": {"name": "s", "labels": None, "command": ["bash", "-c", "exec vllm serve"]},
    "trl's own server": {"name": "s", "command": ["trl", "vllm-serve", "--model", "Qwen/Qwen2.5-0.5B"]},
}


@pytest.mark.parametrize("beside", RECOGNISED.values(), ids=RECOGNISED)
def test_a_sampler_is_recognised_by_its_label_or_by_what_it_serves(beside):
    first, second = applied(governing=sampled(sampler(**beside)))
    assert first.argv[-1] == URL
    assert second.env["MUSTER_SAMPLER"] == f"job-{beside['name']}-0-0.job"


def test_trls_own_server_adds_its_flags_itself():
    _, second = applied(governing=sampled(sampler(command=["trl", "vllm-serve", "--model", "Qwen/Qwen2.5-0.5B"])))
    assert "args" not in serving_in(second)


def test_words_that_admission_cannot_read_are_not_extended():
    for words in (["$(EXTRA)"], ["--config", "grpo.yaml"]):
        first, _ = applied(grpo(*words))
        assert first.argv[-len(words) :] == words


def test_nothing_is_written_twice():
    governing = sampled(ready=False)
    first, second = applied(governing=governing)
    again = enforce("trl", first.document, governing)
    assert len(again.changes) == 0
    assert len(enforce("trl", second.document, governing, owner=first.document).changes) == 0


def test_a_jobset_of_ones_own_is_completed_in_both_roles():
    outcome = enforce("trl", by_hand())
    node = outcome.document["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]["spec"]["containers"][0]
    assert node["args"][-1] == URL
    assert {"name": "MUSTER_SAMPLER", "value": "set-sampler-0-0.set"} in node["env"]
    assert serving_in(outcome)["args"][:2] == ["--model", "Qwen/Qwen2.5-0.5B"]


def test_a_jobset_whose_name_is_generated_is_not_given_a_url_that_nobody_can_fill():
    document = by_hand()
    document["metadata"]["generateName"] = f"{document['metadata'].pop('name')}-"
    outcome = enforce("trl", document)
    node = outcome.document["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]["spec"]["containers"][0]
    assert node["args"] == ARGS
    assert node["command"] == GRPO


def test_a_variable_of_the_jobs_own_is_kept_and_told():
    job = grpo(env=[{"name": "MUSTER_SAMPLER", "value": "elsewhere"}])
    _, second = applied(job)
    assert second.env["MUSTER_SAMPLER"] == "elsewhere"
    assert "sampler/env" in second.rules


FOLDER = {"name": "MUSTER_WEIGHTS_FOLDER", "value": "/shared/weights"}


def test_weights_travel_by_files_where_a_role_names_a_folder_for_them():
    for job, beside in ((grpo(env=[FOLDER]), {}), (grpo(), {"env": [FOLDER]})):
        _, second = applied(job, sampled(sampler(**beside)))
        args = serving_in(second)["args"]
        assert args[args.index("--weight-transfer-config") + 1] == '{"backend":"muster_files"}'
        assert FOLDER in serving_in(second)["env"]
        assert second.env["MUSTER_WEIGHTS_FOLDER"] == "/shared/weights"


def test_a_server_behind_our_supervisor_is_completed_as_a_bare_one():
    command = ["python3", "-m", "muster_weights.sampler.supervise", "vllm", "serve"]
    first, second = applied(governing=sampled(sampler(command=command)))
    assert first.argv[-1] == URL
    assert serving_in(second)["command"] == command
    assert serving_in(second)["args"][:2] == ["--model", "Qwen/Qwen2.5-0.5B"]


def test_a_jobset_of_a_trainjob_from_before_muster_is_told_where_its_sampler_is():
    governing, job = sampled(), grpo()
    second = enforce("trl", jobset_of(job, governing), governing, owner=job)
    assert second.argv[-2:] == ["--vllm_mode=server", URL]


def test_arguments_that_trl_refuses_are_not_extended():
    first, _ = applied(grpo("--vllm_mode"))
    assert first.argv[-1] == "--vllm_mode"


def test_all_parts_of_one_training_are_told_of_their_sampler():
    document = by_hand()
    leader = document["spec"]["replicatedJobs"][1]
    worker = copy.deepcopy(leader)
    leader["name"], worker["name"] = "leader", "worker"
    document["spec"]["replicatedJobs"].append(worker)
    outcome = enforce("trl", document)
    for each in outcome.document["spec"]["replicatedJobs"][1:]:
        node = each["template"]["spec"]["template"]["spec"]["containers"][0]
        assert node["args"][-1] == URL
        assert {"name": "MUSTER_SAMPLER", "value": "set-sampler-0-0.set"} in node["env"]
    assert serving_in(outcome)["args"].count("--model") == 1
    assert len(enforce("trl", outcome.document).changes) == 0

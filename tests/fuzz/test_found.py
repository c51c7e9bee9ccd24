"""What long counts found, made small: each is a job, with what it breaks no more."""

from __future__ import annotations

import json

import msgspec
import pytest

from muster.strategies.documents import decoding, names, pods
from muster.strategies.frameworks.samplers import sent_weights
from muster.strategies.frameworks.trl import flags
from tests.frameworks import sampled_jobs
from tests.fuzz import cases, invariants, services, trials
from tests.support import admissions, devices, jobs

SECRET = "IpNP5oi2JnOL2P3jcNAG5OXWL2sQPTNN4U"


def _jobset(framework="torch", **how):
    made = jobs.make_jobset("train", framework=framework, **how)
    made["metadata"]["labels"] = {jobs.FRAMEWORK: framework}
    return made


def a_request_of_a_claim_that_is_no_text():
    """The request of a container's claim is an object; it is a string in Kubernetes."""
    claims = [{"name": "gpu", "request": {"template": {}}}]
    return (_jobset(container={"command": ["torchrun", "x.py"], "resources": {"claims": claims}}),)


def a_claim_template_whose_name_is_a_list():
    """A runtime's claim template for volumes has a list for its name."""
    runtime = jobs.make_runtime("own", framework="torch")
    claim = {"metadata": {"name": ["data"]}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    runtime["spec"]["template"]["spec"]["volumeClaimPolicies"] = [{"templates": [claim]}]
    return jobs.make_trainjob(runtime="own", command=["torchrun", "x.py"]), runtime


def a_decode_context_that_divides_no_size():
    """No tensor parallel size is a multiple of three and divides four GPUs."""
    container = {
        "command": ["vllm", "serve", "m", "--decode-context-parallel-size", "3"],
        "resources": {"limits": {"nvidia.com/gpu": 4}},
    }
    return (_jobset("vllm", container=container),)


def a_claim_of_more_devices_than_an_integer_of_trainers():
    """The devices of a claim are more than `numProcPerNode` can hold."""
    runtime = jobs.make_runtime("own", framework="torch")
    wanted = [{"name": "gpus", "resourceClaimTemplateName": "two"}]
    job = jobs.make_trainjob(runtime="own", command=["torchrun", "x.py"])
    job["metadata"]["annotations"] = {devices.CLAIMS: json.dumps(wanted)}
    return job, runtime, devices.device_class(), devices.template("two", 2**53 + 1)


def a_recipe_without_a_config_for_a_runtime_without_a_command():
    """The launch that Muster writes for the recipe has no config, which is said before it is written."""
    runtime = jobs.make_runtime("own", framework="torchtune")
    job = jobs.make_trainjob(runtime="own")
    job["spec"]["trainer"] = {"args": ["lora_finetune_distributed"]}
    return job, runtime


def a_source_of_variables_whose_config_map_is_a_text():
    """A runtime's container has all variables of a ConfigMap, whose reference is a text."""
    runtime = jobs.make_runtime("own", framework="torch")
    (node,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    (container,) = node["template"]["spec"]["template"]["spec"]["containers"]
    container["envFrom"] = [{"configMapRef": ">"}]
    return jobs.make_trainjob(runtime="own", command=["python", "x.py"], numNodes=2), runtime


def a_store_without_an_address_for_a_launch_that_is_not_torchrun_yet():
    """`trl sft` reads no PET_RDZV_BACKEND, and torchrun, which Muster writes instead, needs an address for it."""
    runtime = jobs.make_runtime("own", framework="trl")
    args = ["--model_name_or_path=m", "--dataset_name=d", "--output_dir=/o"]
    job = jobs.make_trainjob(runtime="own", command=["trl", "sft"], args=args, numNodes=2)
    job["spec"]["trainer"] |= {
        "resourcesPerNode": {"limits": {"nvidia.com/gpu": 1}},
        "env": [{"name": "PET_RDZV_BACKEND", "value": "etcd"}],
    }
    return job, runtime


def an_item_of_a_runtime_that_no_recipe_takes():
    """The launch that Muster completes has the runtime's dataset, with more than one =."""
    runtime = jobs.make_runtime("torchtune-llama3.2-1b", framework="torchtune")
    (node,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    (container,) = node["template"]["spec"]["template"]["spec"]["containers"]
    recipe = ["tune", "run", "full_finetune_distributed", "--config", "llama3_2/1B_full"]
    container["command"] = [*recipe, "dataset.packed=a=b"]
    return jobs.make_trainjob(runtime="torchtune-llama3.2-1b", command=["tune", "run"]), runtime


def an_init_container_without_a_name():
    """Neither it nor the container beside it has one."""
    made = _jobset(container={"command": ["torchrun", "x.py"]})
    spec = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    spec["containers"], spec["initContainers"] = [{"image": "example.org/x:1"}], [{}]
    return (made,)


def devices_of_which_env_hides_some():
    """Trainer does not count the devices, and env leaves half of them: as many processes are started."""
    runtime = jobs.make_runtime("own", framework="torch")
    job = jobs.make_trainjob(runtime="own", command=["bash", "-c", "torchrun x.py"])
    job["spec"]["trainer"] |= {
        "resourcesPerNode": {"limits": {"huawei.com/Ascend910": 8}},
        "env": [{"name": "ASCEND_RT_VISIBLE_DEVICES", "value": "0,1,2,3"}],
    }
    return job, runtime


def more_devices_than_torchrun_reads():
    """The number of processes that Muster writes for them is one that torchrun does not take."""
    args = ["--model_name_or_path=m", "--dataset_name=d", "--output_dir=/o"]
    container = {"command": ["trl", "sft", *args], "resources": {"limits": {"nvidia.com/gpu": 2**63 - 1}}}
    return (_jobset("trl", container=container),)


def a_replicated_job_of_a_runtime_whose_name_is_an_object():
    """The object holds env with a secret, and a field path names the job."""
    runtime = jobs.make_runtime("own", framework="torch")
    (node,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    secret = {"name": "AWS_SECRET_ACCESS_KEY", "value": SECRET}
    node["name"], node["template"] = {"env": [secret]}, "node"
    return jobs.make_trainjob(runtime="own", command=["torchrun", "x.py"]), runtime


def an_owned_job_that_trainer_gave_the_address_of_another():
    """The endpoint that corrects Trainer's address makes the size of the world known."""
    env = [{"name": "PET_MASTER_ADDR", "value": "train-node-0-0.train"}]
    command = ["tune", "run", "--nnodes", "2", "lora_finetune_distributed"]
    job = _jobset("torchtune", container={"command": command, "env": env}, nodes=2)
    job["spec"]["replicatedJobs"][0]["name"] = "other"
    owner = jobs.make_trainjob(runtime="own", metadata={"name": "train", "uid": jobs.UID})
    reference = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "train", "uid": jobs.UID}
    job["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    return job, owner, jobs.make_runtime("own", framework="torch")


def a_field_of_a_variable_that_is_a_number():
    """A variable that a shell reads takes its value from a field that is a number."""
    entry = {"name": "IDX", "valueFrom": {"fieldRef": 5e-324}}
    command = ["sh", "-c", "exec torchrun --nnodes=2 --node-rank=$IDX --master"]
    return (_jobset(container={"command": command, "env": [entry]}, nodes=2),)


def a_replicated_job_that_waits_for_a_list():
    """A runtime has a claim template, and a replicated job that waits for one whose name is a list."""
    runtime = jobs.make_runtime("own", framework="torch")
    spec = runtime["spec"]["template"]["spec"]
    spec["volumeClaimPolicies"] = [{"templates": [{"metadata": {"name": "data"}}]}]
    spec["replicatedJobs"][0]["dependsOn"] = [{"name": [], "status": "Complete"}]
    return jobs.make_trainjob(runtime="own", command=["torchrun", "x.py"]), runtime


def a_quantity_with_a_token_where_a_message_is_cut():
    """A text where a quantity belongs is so long that a message would end within its token."""
    return (jobs.make_trainjob(command=["train"], resourcesPerNode={"limits": {"cpu": f"{'x' * 42}/nvapi-{SECRET}"}}),)


def a_tune_run_with_a_negative_number_of_devices():
    """The recipe is chosen for several devices, and the endpoint for none."""
    job = jobs.make_trainjob(
        runtime="torchtune-llama3.2-1b", resourcesPerNode={"limits": {"nvidia.com/gpu": -(10**39)}}
    )
    job["spec"]["trainer"].pop("command", None)
    return job, jobs.make_runtime("torchtune-llama3.2-1b", framework="torchtune")


def a_job_that_is_taken_for_the_training_once_it_has_a_claim():
    """A replicated job with a broken label stands beside one that gets a claim, and then looks as if it trained."""
    job = _jobset(container={})
    first = job["spec"]["replicatedJobs"][0]
    second = cases.copied(first)
    first["template"]["metadata"] = {"labels": {jobs.ANCESTOR: "[f"}}
    second["name"] = "sampler"
    second["template"]["metadata"] = {"annotations": {devices.PROFILE: "seats"}}
    job["spec"]["replicatedJobs"] = [first, second]
    return job, devices.device_class()


def a_container_beside_the_first_that_gets_the_claims():
    """An annotation of the JobSet gives the claims to another container than that which would train without them."""
    wanted = [{"name": "g", "resourceClaimTemplateName": "two", "containerNames": ["other"]}]
    job = _jobset(container={"name": "main", "image": "a:1", "command": ["python", "train.py"]})
    other = {"name": "other", "image": "a:1", "command": ["python", "other.py"]}
    devices.pod_of(job)["containers"].append(other)
    job["metadata"]["annotations"] = {devices.CLAIMS: json.dumps(wanted)}
    return job, devices.template("two")


def _training(*words, env=()):
    job = sampled_jobs.by_hand()
    job["metadata"]["name"] = "rl"
    container = jobs.container_of(job, -1)
    container["command"] = ["torchrun", "-m", "trl.scripts.grpo"]
    container["args"] = list(words)
    container["env"] = [*container.get("env", ()), *env]
    return (job,)


def a_training_whose_words_name_its_sampler():
    """Words of the training hold a variable that Muster writes, and can be read once it is there."""
    return _training("--use_vllm", "--", "x@$(MUSTER_SAMPLER):8000")


FOUND = (
    a_quantity_with_a_token_where_a_message_is_cut,
    a_field_of_a_variable_that_is_a_number,
    a_replicated_job_that_waits_for_a_list,
    a_request_of_a_claim_that_is_no_text,
    a_claim_template_whose_name_is_a_list,
    a_decode_context_that_divides_no_size,
    a_claim_of_more_devices_than_an_integer_of_trainers,
    a_recipe_without_a_config_for_a_runtime_without_a_command,
    an_init_container_without_a_name,
    devices_of_which_env_hides_some,
    more_devices_than_torchrun_reads,
    a_replicated_job_of_a_runtime_whose_name_is_an_object,
    an_item_of_a_runtime_that_no_recipe_takes,
    a_store_without_an_address_for_a_launch_that_is_not_torchrun_yet,
    a_source_of_variables_whose_config_map_is_a_text,
    an_owned_job_that_trainer_gave_the_address_of_another,
    a_tune_run_with_a_negative_number_of_devices,
    a_job_that_is_taken_for_the_training_once_it_has_a_claim,
    a_container_beside_the_first_that_gets_the_claims,
    a_training_whose_words_name_its_sampler,
)


def faults_of(document, *cluster):
    """What a job breaks in mode `enforce`."""
    policy = {"mode": "enforce", "profiles": True, "roles": True}
    case = cases.Case(document["kind"], admissions.make_review(document), cluster, policy, {SECRET: "x"})
    with services.Service(patience=600.0, forks=False) as service:
        return invariants.faults(trials.run(service, case), invariants.COUNTED)


@pytest.mark.parametrize("found", FOUND, ids=lambda each: each.__name__)
def test_what_was_found_breaks_no_invariant_any_more(found):
    assert not faults_of(*found())


_VARIABLES = ("MUSTER_SAMPLER", "MASTER_ADDR", "PET_NNODES", "MUSTER_EXPECTED_WORLD_SIZE")
_WORDS = (
    ("--use_vllm", "--", "x@{}:8000"),
    ("--use_vllm", "--model_name_or_path", "{}"),
    ("--use_vllm", "--vllm_mode={}"),
    ("--use_vllm", "--vllm_server_base_url", "http://{}:8000"),
    ("--use_vllm", "--vllm_server_port={}", "--vllm_server_host=h"),
)


@pytest.mark.parametrize("words", _WORDS)
@pytest.mark.parametrize("variable", _VARIABLES)
def test_a_variable_that_muster_writes_is_not_read_in_words_once_it_is_there(variable, words):
    assert not faults_of(*_training(*(word.format(f"$({variable})") for word in words)))


def _written(document, *cluster):
    decision = admissions.decide(document, *cluster)
    for place in (*pods.places(decision.document, ("spec",)),):
        before = {each.name for each in pods.place(document, place.job_path, place.path[-1]).container.env}
        yield from (each.name for each in place.container.env if each.name not in before)


def test_each_variable_that_muster_writes_is_known_as_one():
    plain = _jobset(container={"command": ["python", "x.py"], "resources": {"limits": {"nvidia.com/gpu": 1}}}, nodes=2)
    every = (_training("--use_vllm"), (plain,), (_jobset(container={"command": ["composer", "x.py"]}, nodes=2),))
    presets = {name for preset in ("zero3", "fsdp2") for name in flags.preset_environment(preset)}
    written = {name for job in every for name in _written(*job)} | presets
    assert {"MUSTER_SAMPLER", "MASTER_ADDR", "PET_NNODES", "RANK", "VLLM_SERVER_DEV_MODE", "FSDP_VERSION"} <= written
    assert {name for name in written if not names.is_written(name)} == set()


def test_a_training_beside_a_sampler_whose_command_line_has_no_words_sends_no_adapters():
    assert not sent_weights._flags(())


def test_the_replicated_job_of_many_containers_is_read_once(monkeypatch):
    reads, read = [], decoding.read
    monkeypatch.setattr(decoding, "read", lambda *given: reads.append(given) or read(*given))
    made = _jobset()
    pod = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["containers"] = pod["containers"] * 20
    assert {each.job_name for each in pods.places(made, ("spec",))}
    assert len(reads) == len(made["spec"]["replicatedJobs"])


def test_the_types_of_a_volume_are_not_read_anew_for_each_of_many(monkeypatch):
    monkeypatch.setattr(msgspec.structs, "fields", lambda *_: pytest.fail("reads types, in a millisecond"))
    made = _jobset("trl", container={"command": ["trl", "sft", "--model_name_or_path=m", "--dataset_name=d"]})
    pod = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["volumes"] = [{"name": f"v{number}", "emptyDir": {}} for number in range(150)]
    assert admissions.decide(made, phase="validate").allowed

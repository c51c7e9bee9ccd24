"""TrainJobs of runtimes that are not of torch: MPI, JAX, XGBoost, flux and none."""

from __future__ import annotations

import pytest

from muster.strategies.checks import plugin_checks
from muster.strategies.checks.job_checks import check_job
from muster.strategies.launches import slots, written
from tests.frameworks.builders import gpus, job_of, replicated_job, runtime, trainjob

OPEN_MPI = {"numNodes": 1, "mpi": {"numProcPerNode": 1, "runLauncherAsNode": True}}


def mpi(policy=None, *, user=None, workers="node", launcher="launcher"):
    governing = runtime("deepspeed", policy=policy or OPEN_MPI, job_name=launcher, resources=gpus(4))
    jobs = governing["spec"]["template"]["spec"]["replicatedJobs"]
    jobs.insert(0, replicated_job(workers, {"name": "node", "image": "i", "command": ["/usr/sbin/sshd", "-De"]}))
    if user is not None:
        jobs[1]["template"]["spec"]["template"]["spec"]["securityContext"] = {"runAsUser": user}
    return governing


def launched(line, *, nodes=2, governing=None, **trainer):
    document = trainjob({"command": line.split(), "numNodes": nodes, **trainer})
    return [(each.severity.value, each.rule) for each in slots.check(job_of(document, governing or mpi()))]


ALONE = ("torchrun x.py", "accelerate launch x.py", "trl sft", "deepspeed x.py", "deepspeed --no_ssh x.py")


@pytest.mark.parametrize("line", ALONE)
def test_a_launcher_of_one_pod_leaves_the_other_nodes_idle(line):
    assert launched(line) == [("error", "core/nodes")]
    assert launched(line, nodes=1) == []


IDLE = {
    "a rank on each node": ("mpirun --map-by ppr:1:node python x.py", "core/idle-devices"),
    "half of the ranks": ("mpirun -np 4 python x.py", "core/idle-devices"),
    "one rank": ("mpirun -np 1 python x.py", "core/nodes"),
    "one on each node by another flag": ("mpirun -pernode python x.py", "core/idle-devices"),
    "the launcher alone": ("mpirun -np 4 -H localhost:4 python x.py", "core/nodes"),
    "one node of two": ("deepspeed --hostfile /etc/mpi/hostfile --num_nodes 1 x.py", "core/nodes"),
    "half of the GPUs": ("deepspeed --hostfile /etc/mpi/hostfile --num_gpus 2 x.py", "core/idle-devices"),
    "a launcher in each rank": ("mpirun torchrun x.py", "core/launch"),
}


@pytest.mark.parametrize(("line", "rule"), IDLE.values(), ids=IDLE)
def test_nodes_and_gpus_without_a_rank_are_told(line, rule):
    assert launched(line) == [("warning", rule)]


def test_a_plain_program_may_start_the_ranks_itself_and_is_noted():
    assert launched("python x.py") == [("note", "core/nodes")]


RIGHT = (
    "mpirun python x.py",
    "mpirun -np 8 python x.py",
    "mpirun --map-by ppr:4:node python x.py",
    "mpirun --map-by ppr:1:node torchrun --nproc-per-node 4 x.py",
    "mpirun --hostfile /etc/mpi/hostfile python x.py",
    "mpirun --hostfile /own/hosts -np 1 python x.py",
    "mpirun -np $(RANKS) python x.py",
    "mpiexec.hydra -np 1 python x.py",
    "deepspeed --hostfile /etc/mpi/hostfile x.py",
    "accelerate launch --deepspeed_hostfile /etc/mpi/hostfile x.py",
    "/opt/start",
)


@pytest.mark.parametrize("line", RIGHT)
def test_a_launch_of_all_nodes_and_one_that_is_not_read_are_silent(line):
    assert launched(line) == []


def test_a_volume_may_bring_the_file_that_deepspeed_reads_by_default():
    governing = mpi()
    container = governing["spec"]["template"]["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]["spec"][
        "containers"
    ][0]
    container["volumeMounts"] = [{"name": "hosts", "mountPath": "/job"}]
    assert launched("deepspeed x.py", governing=governing) == []
    assert launched("deepspeed x.py", image="example.org/own:1") == [("warning", "core/nodes")]


def test_open_mpi_does_not_run_as_root_unless_it_is_told_to():
    line, allowed = "mpirun -np 8 python x.py", {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    env = [{"name": name, "value": value} for name, value in allowed.items()]
    assert launched(line, governing=mpi(user=0)) == [("error", "core/launch")]
    assert launched(line, governing=mpi(user=0), env=env[:1]) == [("error", "core/launch")]
    assert launched(line, governing=mpi(user=0), env=env) == []
    assert launched(line, governing=mpi(user=1000)) == []
    assert launched(line) == []  # the image decides who it is


def about(governing, trainer=None):
    document = trainjob({"command": ["python", "x.py"], "numNodes": 2, **(trainer or {})})
    return [(each.severity.value, each.rule, each.field) for each in plugin_checks.check(job_of(document, governing))]


def test_a_runtime_of_mpi_has_a_launcher_and_nodes():
    assert about(mpi()) == []
    assert about(mpi(workers="others")) == [("error", "core/plugin", "spec.trainer.numNodes")]
    assert about(mpi({"mpi": {}}, launcher="head")) == [("warning", "core/plugin", "spec.runtimeRef.name")]
    assert about(mpi({"mpi": {}}, launcher="head"), {"numNodes": 1}) == []
    assert about(mpi({"mpi": {}}, workers="others")) == [("error", "core/plugin", "spec.trainer.numNodes")]
    assert about(mpi({"mpi": {"mpiImplementation": ""}})) == [("error", "core/plugin", "spec.runtimeRef.name")]
    assert about(mpi({"numNodes": 2, "mpi": {}})) == [("warning", "core/plugin", "spec.runtimeRef.name")]


def variables(**values):
    return {"env": [{"name": name, "value": value} for name, value in values.items()]}


def test_the_variables_of_jax_have_to_agree_with_the_nodes():
    jax = runtime("jax", policy={"jax": {}})
    for name, wrong, right in (
        ("JAX_NUM_PROCESSES", "1", "2"),
        ("JAX_COORDINATOR_ADDRESS", "127.0.0.1:1234", "job-node-0-0.job:1234"),
        ("JAX_PROCESS_ID", "0", "$(JOB_COMPLETION_INDEX)"),
    ):
        assert about(jax, variables(**{name: wrong})) == [("error", "core/plugin", f"spec.trainer.env[{name}]")]
        assert about(jax, variables(**{name: right})) == []
    assert about(jax, {"numNodes": 1, **variables(JAX_PROCESS_ID="0", JAX_COORDINATOR_ADDRESS="localhost:1")}) == []
    field = "spec.trainer.env[JAX_NUM_PROCESSES]"
    assert about(jax, variables(JAX_NUM_PROCESSES="8")) == [("warning", "core/plugin", field)]


def test_jax_on_the_processor_leaves_gpus_idle():
    env, field = variables(JAX_PLATFORMS="cpu"), "spec.trainer.env[JAX_PLATFORMS]"
    assert about(runtime("jax", policy={"jax": {}}, resources=gpus(4)), env) == [
        ("warning", "core/idle-devices", field)
    ]
    assert about(runtime("jax", policy={"jax": {}}), env) == []


@pytest.mark.parametrize("policy", ["jax", "xgboost"])
def test_the_first_node_has_the_name_that_trainer_tells_the_others(policy):
    for changed in ({"job_name": "trainer"}, {"network": {"subdomain": "ring"}}):
        governing = runtime(policy, policy={policy: {}}, **changed)
        assert about(governing) == [("error", "core/plugin", "spec.runtimeRef.name")]
        assert about(governing, {"numNodes": 1}) == []


def test_members_that_nothing_reads_are_told():
    assert about(runtime("jax", policy={"jax": {}}), {"numProcPerNode": 4}) == [
        ("warning", "core/ignored-number", "spec.trainer.numProcPerNode")
    ]
    assert about(runtime("jax", policy={"jax": {}}), {"numProcPerNode": 1}) == []
    assert about(runtime("flux", policy={"flux": {}}), {"numProcPerNode": 4}) == []
    bare = runtime("own")
    del bare["spec"]["mlPolicy"]
    assert about(bare, {"resourcesPerNode": gpus(1)}) == [("warning", "core/plugin", "spec.trainer.resourcesPerNode")]


def test_names_that_trainer_looks_for_in_a_runtime():
    flux, torch = runtime("flux", policy={"flux": {}}), runtime("torch")
    flux["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["initContainers"] = [
        {"name": "flux-installer", "image": "i"}
    ]
    assert about(flux) == [("error", "core/plugin", "spec.runtimeRef.name")]
    target = {"targets": [{"jobName": "node", "containerNames": ["helper"]}]}
    torch["spec"]["mlPolicy"] = {"torch": {"envInjection": target}}
    assert about(torch) == [("error", "core/plugin", "spec.runtimeRef.name")]
    pod = torch["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["containers"].append({"name": "helper", "image": "i"})
    assert about(torch) == []


def without_pet(line, *, nodes=2, policy="jax"):
    governing = runtime(policy, policy={policy: {}} if policy else {"numNodes": 1}, resources=gpus(4))
    document = trainjob({"command": line.split(), "numNodes": nodes})
    return [(each.severity.value, each.rule) for each in written.check(job_of(document, governing))]


ENDPOINT = "--nnodes 2 --nproc-per-node 4 --rdzv-backend c10d --rdzv-endpoint job-node-0-0.job:29400"
FLAGS = "--nnodes 2 --nproc-per-node 4 --master-addr job-node-0-0.job"


@pytest.mark.parametrize("policy", ["jax", "xgboost", ""])
def test_torchrun_in_a_runtime_without_pet_says_all_by_flags(policy):
    assert without_pet("torchrun --nproc-per-node 4 x.py", policy=policy) == [("error", "core/nodes")]
    assert without_pet("torchrun --nnodes 2 --nproc-per-node 4 x.py", policy=policy) == [("error", "core/nodes")]
    assert without_pet(f"torchrun {FLAGS} x.py", policy=policy) == [("error", "core/fixed-rank")]
    assert without_pet(f"torchrun {FLAGS} --node-rank $(JOB_COMPLETION_INDEX) x.py", policy=policy) == []
    assert without_pet(f"torchrun {ENDPOINT} x.py", policy=policy) == []
    assert without_pet("torchrun --standalone --nproc-per-node 4 x.py", nodes=1, policy=policy) == []
    assert without_pet("torchrun --standalone --nproc-per-node 4 x.py", policy=policy) == [("warning", "core/nodes")]
    assert ("warning", "core/unset-variable") in without_pet("torchrun --nnodes $(PET_NNODES) x.py", policy=policy)
    assert without_pet("python x.py", policy=policy) == []


INITIALIZER = "dataset-initializer"


def initialized(*, label=INITIALIZER, depends="Complete", env=()):
    mounts = [{"name": "initializer", "mountPath": "/workspace"}]
    download = replicated_job(INITIALIZER, {"name": INITIALIZER, "image": "i", "volumeMounts": mounts}, step=label)
    governing = runtime()
    jobs = governing["spec"]["template"]["spec"]["replicatedJobs"]
    jobs[0]["dependsOn"] = [{"name": INITIALIZER, "status": depends}] if depends else []
    jobs.insert(0, download)
    document = trainjob({})
    document["spec"]["initializer"] = {"dataset": {"storageUri": "hf://a/b", "env": list(env)}}
    found = check_job(job_of(document, governing))
    return [(each.severity.value, each.field) for each in found if each.rule == "core/initializer"]


def test_an_initializer_is_found_told_its_source_and_waited_for():
    assert initialized() == []
    assert initialized(label=None) == [("error", "spec.initializer.dataset")]
    assert initialized(depends=None) == [("warning", "spec.initializer.dataset")]
    assert initialized(depends="Ready") == [("warning", "spec.initializer.dataset")]
    source = {"name": "STORAGE_URI", "value": "hf://c/d"}
    assert initialized(env=[source]) == [("warning", "spec.initializer.dataset.env[STORAGE_URI]")]
    assert initialized(env=[{**source, "value": "hf://a/b"}]) == []


def test_gpus_go_to_the_nodes_and_not_to_a_launcher_that_is_none():
    policy, line = {"mpi": {"numProcPerNode": 4}}, "mpirun python x.py"
    governing = mpi(policy)
    assert launched(line, governing=governing, resourcesPerNode=gpus(4)) == [("warning", "core/idle-devices")]
    node = governing["spec"]["template"]["spec"]["replicatedJobs"][0]
    node["template"]["spec"]["template"]["spec"]["containers"][0]["resources"] = gpus(4)
    assert launched(line, governing=governing, resourcesPerNode=gpus(4)) == []
    assert launched(line, resourcesPerNode=gpus(4)) == []


def test_places_programs_and_hosts_of_mpi():
    assert launched("mpirun -np 8 --map-by ppr:2:node python x.py") == [("warning", "core/too-many-processes")]
    assert launched("mpirun x.py") == [("error", "core/launch")]
    hosts = "deepspeed --hostfile /etc/mpi/hostfile --include"
    assert launched(f"{hosts} worker-0:0,1@worker-1 x.py") == [("warning", "core/launch")]
    assert launched(f"{hosts} job-launcher-0-0.job:0,1@job-node-0-0.job x.py") == []


def test_a_shell_may_write_over_a_variable_of_jax():
    line = "JAX_COORDINATOR_ADDRESS=localhost:1 python x.py"
    jax = runtime("jax", policy={"jax": {}})
    assert about(jax, {"command": ["bash", "-c", line]}) == [("error", "core/plugin", "spec.trainer.command")]
    assert about(jax, {"command": ["bash", "-c", "python x.py"]}) == []


def test_a_process_of_jax_uses_the_gpus_that_it_sees():
    jax, field = runtime("jax", policy={"jax": {}}, resources=gpus(4)), "spec.trainer.env[CUDA_VISIBLE_DEVICES]"
    assert about(jax, variables(CUDA_VISIBLE_DEVICES="0")) == [("warning", "core/idle-devices", field)]
    assert about(jax, variables(CUDA_VISIBLE_DEVICES="0,1,2,3")) == []


@pytest.mark.parametrize("queue", ["", "research"])
def test_a_queue_of_volcano_has_a_name(queue):
    governing = runtime()
    governing["spec"]["podGroupPolicy"] = {"volcano": {}}
    governing["spec"]["template"]["metadata"] = {"annotations": {"scheduling.volcano.sh/queue-name": queue}}
    found = [each.rule for each in check_job(job_of(trainjob({}), governing)) if each.rule == "core/gang"]
    assert found == ([] if queue else ["core/gang"])

"""A PyTorchJob as a TrainJob: the same pods, ranks, processes and ends, or a note."""

from __future__ import annotations

import pytest

from tests.migrations import jobs

RANK = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}


def test_a_job_of_torchrun_gets_the_shipped_runtime(migrated):
    found = migrated(jobs.pytorch(3))
    assert found.is_shipped
    assert found.trainer["numNodes"] == 4
    assert found.trainer["command"] == ["torchrun", "train.py"]
    assert found.env == {"PYTHONUNBUFFERED": "1"}
    assert found.lost == {}


def test_a_program_without_torchrun_keeps_the_variables_of_the_operator(migrated):
    found = migrated(jobs.pytorch(1, command=("python", "train.py")))
    assert found.env == {
        "PYTHONUNBUFFERED": "1",
        "MASTER_ADDR": "old-node-0-0.old",
        "MASTER_PORT": "29500",
        "WORLD_SIZE": "2",
        "RANK": "(rank)",
    }
    assert {"name": "RANK", "valueFrom": RANK} in found.trainer["env"]


def test_the_world_counts_the_processes_of_a_node(migrated):
    found = migrated(jobs.pytorch(1, {"nprocPerNode": "4"}, command=("python", "train.py")))
    assert (found.env["WORLD_SIZE"], found.trainer["numProcPerNode"]) == ("8", 4)


def test_the_world_counts_one_process_of_a_node_for_a_word_as_the_operator_does(migrated):
    inside = {"resources": {"limits": {"nvidia.com/gpu": 2}}}
    found = migrated(jobs.pytorch(1, {"nprocPerNode": "gpu"}, inside, inside, command=("python", "train.py")))
    assert (found.env["WORLD_SIZE"], found.trainer["numProcPerNode"]) == ("2", 2)


def test_metadata_that_go_writes_needs_no_runtime(migrated):
    document = jobs.pytorch(1)
    for each in document["spec"]["pytorchReplicaSpecs"].values():
        each["template"]["metadata"] = {"creationTimestamp": None}
        each["template"]["spec"]["containers"][0]["resources"] = {}
    assert migrated(document).is_shipped


def test_a_command_that_names_a_variable_of_the_operator_gets_it(migrated):
    command = ("torchrun", "--nnodes=$(WORLD_SIZE)", "train.py")
    assert migrated(jobs.pytorch(1, command=command)).env["WORLD_SIZE"] == "2"


def test_a_job_without_a_master_gets_no_address_as_before(migrated):
    document = jobs.pytorch(2, command=("python", "train.py"))
    del document["spec"]["pytorchReplicaSpecs"]["Master"]
    assert migrated(document).env == {"PYTHONUNBUFFERED": "1"}


@pytest.mark.parametrize(
    ("written", "new"),
    [
        ("old-master-0", "old-node-0-0.old"),
        ("tcp://old-master-0:23456", "tcp://old-node-0-0.old:23456"),
        ("old-worker-0", "old-node-0-1.old"),
        ("old-worker-12.team.svc", "old-node-0-13.old.team.svc"),
        ("my-old-master-0", "my-old-master-0"),
        ("old-master-0-data", "old-master-0-data"),
        ("/data/old-master", "/data/old-master"),
    ],
)
def test_addresses_of_old_pods_become_those_of_the_new(migrated, written, new):
    found = migrated(jobs.pytorch(1, command=("torchrun", "train.py", f"--init={written}")))
    assert found.trainer["command"][2] == f"--init={new}"
    assert (written != new) == any(text.startswith("Addresses") for text in found.changed.values())


def test_names_of_other_objects_stay(migrated):
    document = jobs.pytorch(1)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "old-master-0"}}]
    for each in document["spec"]["pytorchReplicaSpecs"].values():
        each["template"]["spec"]["volumes"] = volumes
    assert migrated(document).patch["spec"]["volumes"] == volumes


def test_addresses_in_variables_and_init_containers_become_those_of_the_new(migrated):
    init = {"name": "wait", "image": "registry.example/wait", "command": ["wait-for", "old-master-0"]}
    env = {"env": [{"name": "TRACKER", "value": "http://old-master-0:5000"}]}
    document = jobs.pytorch(1, master=env, worker=env)
    for each in document["spec"]["pytorchReplicaSpecs"].values():
        each["template"]["spec"]["initContainers"] = [init]
    found = migrated(document)
    assert found.env["TRACKER"] == "http://old-node-0-0.old:5000"
    assert found.pod()["initContainers"][0]["command"] == ["wait-for", "old-node-0-0.old"]


def test_variables_that_the_operator_replaced_are_replaced_and_noted(migrated):
    env = {"env": [{"name": "MASTER_ADDR", "value": "localhost"}, {"name": "PET_NNODES", "value": "9"}]}
    found = migrated(jobs.pytorch(1, master=env, worker=env, command=("python", "train.py")))
    assert found.env["MASTER_ADDR"] == "old-node-0-0.old"
    assert "PET_NNODES" not in found.env
    (text,) = [each for each in found.changed.values() if "replaced" in each]
    assert "MASTER_ADDR" in text
    assert "PET_NNODES" in text


@pytest.mark.parametrize(
    ("written", "resources", "processes", "lost", "changed"),
    [
        (None, {"limits": {"nvidia.com/gpu": 2}}, None, False, False),
        ("auto", {"limits": {"nvidia.com/gpu": 2}}, None, False, False),
        (None, {}, None, False, True),
        ("3", {}, 3, False, False),
        ("gpu", {"limits": {"nvidia.com/gpu": 2}}, 2, False, False),
        ("gpu", {}, None, True, False),
        ("cpu", {"requests": {"cpu": "4"}}, None, True, False),
    ],
)
def test_processes_of_a_node_stay_or_are_noted(migrated, written, resources, processes, lost, changed):
    inside = {"resources": resources} if resources else {}
    found = migrated(jobs.pytorch(1, {"nprocPerNode": written} if written else {}, inside, inside))
    assert found.trainer.get("numProcPerNode") == processes
    assert ("spec.nprocPerNode" in found.lost) == lost
    assert ("spec.nprocPerNode" in found.changed) == changed


def test_what_a_patch_can_say_stays_on_the_shipped_runtime(migrated):
    pod = {
        "nodeSelector": {"gpu": "a100"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "serviceAccountName": "trainer",
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    }
    mount = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    document = jobs.pytorch(1, master=mount, worker=mount)
    for each in document["spec"]["pytorchReplicaSpecs"].values():
        each["template"]["spec"] |= pod
        each["template"]["metadata"] = {"annotations": {"sidecar.istio.io/inject": "false"}}
    found = migrated(document)
    assert found.is_shipped
    assert found.patch["spec"] == {"containers": [{"name": "node", **mount}], **pod}
    assert found.patch["metadata"] == {"annotations": {"sidecar.istio.io/inject": "false"}}


@pytest.mark.parametrize(
    "pod",
    [
        {"initContainers": [{"name": "fetch", "image": "registry.example/fetch"}]},
        {"priorityClassName": "high"},
        {"hostNetwork": True},
        {"schedulerName": "volcano"},
    ],
    ids=lambda pod: next(iter(pod)),
)
def test_what_no_patch_can_say_gets_a_runtime_of_its_own(migrated, pod):
    document = jobs.pytorch(1)
    for each in document["spec"]["pytorchReplicaSpecs"].values():
        each["template"]["spec"] |= pod
    found = migrated(document)
    assert found.job["runtimeRef"] == {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": "old"}
    assert found.pod().items() >= pod.items()
    assert found.pod()["containers"] == [{"name": "node", "image": "registry.example/train:1"}]
    assert found.trainer["command"] == ["torchrun", "train.py"]
    assert "image" not in found.trainer
    assert found.runtime["mlPolicy"] == {"numNodes": 2, "torch": {}}


def test_a_sidecar_gets_the_variables_as_before(migrated):
    document = jobs.pytorch(1, command=("python", "train.py"))
    for each in document["spec"]["pytorchReplicaSpecs"].values():
        each["template"]["spec"]["containers"].insert(0, {"name": "side", "image": "registry.example/side"})
    found = migrated(document)
    main, side = found.pod()["containers"]
    assert (main["name"], side["name"]) == ("node", "side")
    assert "MASTER_ADDR" in {each["name"] for each in side["env"]}
    targets = found.runtime["mlPolicy"]["torch"]["envInjection"]["targets"]
    assert targets == [{"jobName": "node", "containerNames": ["side"]}]


@pytest.mark.parametrize(
    ("image", "policy", "shipped"),
    [
        ("a/b:1", "IfNotPresent", True),
        ("a/b:1", "Always", False),
        ("a/b:latest", "Always", True),
        ("a/b", "Always", True),
        ("a/b", "IfNotPresent", False),
        ("host:5000/b", "Always", True),
        ("a/b@sha256:0", "IfNotPresent", True),
        ("a/b:1", "Never", False),
    ],
)
def test_a_pull_policy_that_holds_anyway_needs_no_runtime(migrated, image, policy, shipped):
    inside = {"image": image, "imagePullPolicy": policy}
    assert migrated(jobs.pytorch(1, master=inside, worker=inside)).is_shipped == shipped


def test_the_port_of_the_operator_is_not_needed(migrated):
    inside = {"ports": [{"name": "pytorchjob-port", "containerPort": 23456}]}
    assert migrated(jobs.pytorch(1, master=inside, worker=inside)).is_shipped
    inside = {"ports": [{"name": "metrics", "containerPort": 8000}]}
    assert migrated(jobs.pytorch(1, master=inside, worker=inside)).pod()["containers"][0]["ports"] == inside["ports"]


@pytest.mark.parametrize("member", ["image", "command", "args"])
def test_a_worker_with_another_program_is_noted(migrated, member):
    document = jobs.pytorch(1)
    worker = document["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    worker[member] = "registry.example/other" if member == "image" else ["other"]
    found = migrated(document)
    text = found.lost[f"spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].{member}"]
    assert text == "a TrainJob's nodes all run the same pod; that of the Master is written, and not that of the Worker"
    assert found.trainer.get(member) != worker[member]


def test_the_larger_resources_of_two_roles_are_kept_and_noted(migrated):
    small, large = ({"resources": {"limits": {"cpu": each, "memory": "1Gi"}}} for each in ("500m", "2"))
    found = migrated(jobs.pytorch(1, master=small, worker=large))
    assert found.trainer["resourcesPerNode"] == {"limits": {"cpu": "2", "memory": "1Gi"}}
    assert list(found.changed.values()).count("The Master had 500m and the Worker 2; all nodes have 2.") == 1


def test_what_only_one_role_has_is_given_to_all_and_noted(migrated):
    document = jobs.pytorch(1)
    worker = document["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    worker["tolerations"] = [{"operator": "Exists"}]
    worker["containers"][0]["env"] = [{"name": "DEBUG", "value": "1"}]
    found = migrated(document)
    assert found.patch["spec"]["tolerations"] == [{"operator": "Exists"}]
    assert found.env["DEBUG"] == "1"
    assert sum(text == "Only the Worker had it; all nodes have it now." for text in found.changed.values()) == 2


@pytest.mark.parametrize(
    ("restart", "backoff", "pod", "job"),
    [
        ("OnFailure", 3, None, {"backoffLimit": 3}),
        ("Always", 3, None, {"backoffLimit": 3}),
        ("Never", None, "Never", {"backoffLimit": 0}),
        ("Never", 3, "Never", {"backoffLimit": 0}),
        ("ExitCode", 3, "Never", {"backoffLimit": 3}),
    ],
)
def test_restarts_become_those_of_a_job(migrated, restart, backoff, pod, job):
    document = jobs.pytorch(1, {"runPolicy": {"backoffLimit": backoff}} if backoff is not None else {})
    for each in document["spec"]["pytorchReplicaSpecs"].values():
        each["restartPolicy"] = restart
    found = migrated(document)
    assert found.pod().get("restartPolicy") == pod
    assert found.replicated().items() >= job.items()
    if restart == "ExitCode":
        (rule,) = found.replicated()["podFailurePolicy"]["rules"]
        assert rule["action"] == "FailJob"
        assert rule["onExitCodes"] == {"containerName": "node", "operator": "In", "values": list(range(1, 128))}


def test_restarts_without_end_are_noted(migrated):
    assert "6 tries" in migrated(jobs.pytorch(1)).changed["spec.pytorchReplicaSpecs.Master.restartPolicy"]
    limited = migrated(jobs.pytorch(1, {"runPolicy": {"backoffLimit": 3}}))
    assert "spec.pytorchReplicaSpecs.Master.restartPolicy" not in limited.changed


def test_the_run_policy_moves_or_is_noted(migrated):
    policy = {
        "suspend": True,
        "activeDeadlineSeconds": 60,
        "managedBy": "kueue.x-k8s.io/multikueue",
        "ttlSecondsAfterFinished": 5,
        "cleanPodPolicy": "All",
        "schedulingPolicy": {"queue": "team", "minAvailable": 1, "priorityClass": "high"},
    }
    found = migrated(jobs.pytorch(1, {"runPolicy": policy}))
    assert found.job.items() >= {"suspend": True, "activeDeadlineSeconds": 60}.items()
    assert found.job["managedBy"] == "kueue.x-k8s.io/multikueue"
    assert found.runtime["podGroupPolicy"] == {"volcano": {}}
    assert found.runtime["template"]["metadata"]["annotations"] == {"scheduling.volcano.sh/queue-name": "team"}
    assert found.pod()["priorityClassName"] == "high"
    assert found.lost.keys() == {
        "spec.runPolicy.ttlSecondsAfterFinished",
        "spec.runPolicy.cleanPodPolicy",
        "spec.runPolicy.schedulingPolicy.minAvailable",
    }


def test_a_gang_of_all_pods_is_a_gang(migrated):
    policy = {"schedulingPolicy": {"minAvailable": 2, "scheduleTimeoutSeconds": 30}}
    found = migrated(jobs.pytorch(1, {"runPolicy": policy}))
    assert found.runtime["podGroupPolicy"] == {"coscheduling": {"scheduleTimeoutSeconds": 30}}
    assert found.lost == {}


def test_the_operator_is_no_manager_of_a_trainjob(migrated):
    policy = {"managedBy": "kubeflow.org/training-operator"}
    assert "managedBy" not in migrated(jobs.pytorch(1, {"runPolicy": policy})).job


def test_an_elastic_job_meets_by_the_same_backend_on_the_new_address(migrated):
    policy = {
        "minReplicas": 1,
        "maxReplicas": 2,
        "maxRestarts": 5,
        "rdzvId": "x",
        "rdzvConf": [{"key": "timeout", "value": "900"}, {"key": "read_timeout", "value": "60"}],
    }
    found = migrated(jobs.elastic(policy))
    assert found.env == {
        "PYTHONUNBUFFERED": "1",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": "old-node-0-0.old:29500",
        "PET_RDZV_ID": "x",
        "PET_MAX_RESTARTS": "5",
        "PET_RDZV_CONF": "timeout=900,read_timeout=60",
    }
    assert found.trainer["numNodes"] == 2
    assert found.lost.keys() == {"spec.elasticPolicy.minReplicas", "spec.elasticPolicy.maxReplicas"}


def test_an_elastic_job_keeps_its_etcd(migrated):
    found = migrated(jobs.elastic({"rdzvBackend": "etcd-v2", "rdzvHost": "etcd-client", "rdzvPort": 2379}))
    assert found.env["PET_RDZV_ENDPOINT"] == "etcd-client:2379"
    assert migrated(jobs.elastic({"rdzvHost": "old-worker-0"})).env["PET_RDZV_ENDPOINT"] == "old-node-0-0.old:29500"


def test_metadata_that_people_wrote_stays(migrated):
    applied = "kubectl.kubernetes.io/last-applied-configuration"
    document = jobs.pytorch(
        1,
        namespace="team",
        labels={"kueue.x-k8s.io/queue-name": "user-queue"},
        annotations={applied: "{}", "note": "x"},
        uid="1",
        resourceVersion="5",
    )
    document["status"] = {"conditions": []}
    found = migrated(document)
    assert found.documents[-1]["metadata"] == {
        "name": "old",
        "namespace": "team",
        "labels": {"kueue.x-k8s.io/queue-name": "user-queue"},
        "annotations": {"note": "x"},
    }
    assert found.lost == {}


def test_roles_in_other_letters_are_read_as_the_operator_reads_them(migrated):
    document = jobs.pytorch(1)
    replicas = document["spec"]["pytorchReplicaSpecs"]
    document["spec"]["pytorchReplicaSpecs"] = {each.lower(): value for each, value in replicas.items()}
    assert migrated(document).trainer["numNodes"] == 2


def test_a_job_that_cannot_be_read_is_refused_with_its_field(refusal):
    nameless = jobs.pytorch(1)
    del nameless["metadata"]["name"]
    assert refusal(nameless).startswith("metadata.name: ")
    other = jobs.pytorch(1)
    other["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]["name"] = "main"
    assert refusal(other).startswith("spec.pytorchReplicaSpecs.Master.template.spec.containers: no container")
    assert refusal(jobs.job("PyTorchJob", {})) == (
        "spec.pytorchReplicaSpecs: has no replica with a pod; write Master or Worker"
    )
    assert refusal(jobs.pytorch(1, {"runPolicy": []})).startswith("spec.runPolicy: must be an object")


def test_a_member_of_another_type_in_a_pod_template_is_refused_with_its_path(refusal):
    told = refusal(jobs.pytorch(1, worker={"args": ["--lr", 5]}))
    assert told == (
        "spec.pytorchReplicaSpecs.Worker.template.spec.containers[pytorch].args[1]: must be a string; correct it, "
        "then migrate"
    )

"""An MPIJob as a TrainJob on a runtime of its own, in which ssh can read its key."""

from __future__ import annotations

import pytest

from tests.migrations import jobs


def test_launcher_and_workers_are_one_runtime(migrated):
    found = migrated(jobs.mpi({"slotsPerWorker": 4, "sshAuthMountPath": "/home/user/.ssh"}))
    assert found.runtime["mlPolicy"]["mpi"] == {
        "numProcPerNode": 4,
        "mpiImplementation": "OpenMPI",
        "sshAuthMountPath": "/home/user/.ssh",
        "runLauncherAsNode": False,
    }
    assert found.runtime["template"]["spec"]["successPolicy"]["targetReplicatedJobs"] == ["launcher"]
    assert [each["name"] for each in found.runtime["template"]["spec"]["replicatedJobs"]] == ["node", "launcher"]
    assert [found.pod(number)["containers"][0]["name"] for number in (0, 1)] == ["node", "node"]
    assert found.trainer == {"numNodes": 2, "numProcPerNode": 4, "command": ["mpirun"], "args": ["-n", "2", "/train"]}


def test_the_runtime_has_one_node_since_its_launcher_gets_as_many_pods(migrated):
    assert migrated(jobs.mpi()).runtime["mlPolicy"]["numNodes"] == 1


def test_a_launcher_that_works_too_is_a_node(migrated):
    found = migrated(jobs.mpi({"runLauncherAsWorker": True}))
    assert found.trainer["numNodes"] == 3
    assert found.runtime["mlPolicy"]["mpi"]["runLauncherAsNode"]
    assert {each["name"] for each in found.pod(1)["containers"][0]["env"]} == {"K_MPI_JOB_ROLE"}


def test_a_launcher_that_only_launches_sees_no_gpu(migrated):
    env = {each["name"]: each["value"] for each in migrated(jobs.mpi()).pod(1)["containers"][0]["env"]}
    assert env == {"K_MPI_JOB_ROLE": "launcher", "NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""}


def test_workers_without_a_command_run_sshd(migrated):
    assert migrated(jobs.mpi()).pod(0)["containers"][0]["command"] == ["/usr/sbin/sshd", "-De"]


def test_a_user_can_read_the_key_by_its_group(migrated):
    found = migrated(jobs.mpi(user=1000))
    assert [found.pod(number)["securityContext"] for number in (0, 1)] == [{"fsGroup": 1000}] * 2
    assert found.lost == {}


def test_root_cannot_use_the_key_and_is_told(migrated):
    lost = migrated(jobs.mpi(user=None)).lost
    for role in ("Launcher", "Worker"):
        assert "mode 0640" in lost[f"spec.mpiReplicaSpecs.{role}.template.spec.securityContext"]


def test_a_launcher_keeps_the_retries_of_its_job(migrated):
    found = migrated(jobs.mpi())
    assert "backoffLimit" not in found.replicated(1)
    assert "restartPolicy" not in found.pod(1)
    assert found.replicated(0)["backoffLimit"] == 0
    assert migrated(jobs.mpi({"runPolicy": {"backoffLimit": 2}})).replicated(1)["backoffLimit"] == 2


def test_addresses_of_old_pods_become_those_of_the_new(migrated):
    args = ["-H", "old-worker-0.old.team.svc:1,old-worker-1:1", "--to", "old-launcher"]
    found = migrated(jobs.mpi(args=args))
    assert found.trainer["args"] == [
        "-H",
        "old-node-0-0.old.team.svc:1,old-node-0-1.old:1",
        "--to",
        "old-launcher-0-0.old",
    ]


@pytest.mark.parametrize("flavour", ["Intel", "MPICH"])
def test_another_implementation_is_refused(refusal, flavour):
    assert refusal(jobs.mpi({"mpiImplementation": flavour})).startswith(
        f"spec.mpiImplementation: Trainer accepts {flavour} and then makes no pod"
    )


@pytest.mark.parametrize("role", ["Launcher", "Worker"])
def test_a_job_without_one_of_the_roles_is_refused(refusal, role):
    document = jobs.mpi()
    del document["spec"]["mpiReplicaSpecs"][role]
    assert refusal(document).startswith(f"spec.mpiReplicaSpecs: has no {role} with a pod")


def test_v1_needs_ssh_in_its_image(migrated):
    found = migrated(jobs.mpi(version="v1"))
    assert "kubectl exec" in found.lost["spec.mpiReplicaSpecs.Launcher"]
    assert found.replicated(1)["backoffLimit"] == 0


def test_a_script_that_discovers_hosts_is_noted(migrated):
    found = migrated(jobs.mpi(args=["--host-discovery-script", "/etc/mpi/discover_hosts.sh"]))
    assert "discover_hosts.sh" in found.lost["spec.mpiReplicaSpecs.Launcher.template.spec.containers[0]"]


def test_variables_that_trainer_refuses_are_left_out_and_noted(migrated):
    found = migrated(jobs.mpi(env=[{"name": "OMPI_MCA_plm_rsh_args", "value": "-p 1"}]))
    names = [each["name"] for each in found.pod(1)["containers"][0]["env"]]
    assert "OMPI_MCA_plm_rsh_args" not in names
    assert "OMPI_MCA_plm_rsh_args" in found.changed["spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].env"]


def test_a_version_that_nobody_knows_is_refused(refusal):
    assert refusal(jobs.mpi(version="v1alpha1")).startswith("apiVersion: 'v1alpha1' is not a version")

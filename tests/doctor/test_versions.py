"""What Muster was tested with is what the suites are pinned to, and what is found is compared with that."""

from __future__ import annotations

import re
from importlib import metadata

import pytest

from muster.webhook.doctor import cluster_versions
from tests.doctor import worlds
from tests.manifests import files

TRAINER = "ghcr.io/kubeflow/trainer/trainer-controller-manager"
PINS = files.FOLDER.parent / "e2e" / "binaries" / "kubernetes" / "go.mod"
MODULES = {
    "Kubernetes": "k8s.io/kubernetes",
    "Trainer": "github.com/kubeflow/trainer/v2",
    "JobSet": "sigs.k8s.io/jobset",
}


@pytest.mark.parametrize("name", cluster_versions.TESTED)
def test_the_tested_versions_are_those_that_the_suites_are_pinned_to(name):
    (pinned,) = re.findall(rf"^\s{re.escape(MODULES[name])} (v\S+)", PINS.read_text(), re.MULTILINE)
    assert cluster_versions.TESTED[name] == pinned


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("v1.36.0", "ok"),
        ("v1.36.9-gke.100", "ok"),
        ("v1.37.0", "warning"),
        ("v1.30.1", "warning"),
        ("v1.29.9", "error"),
        ("", "warning"),
    ],
)
async def test_the_api_server_is_judged_by_its_minor_version(world, examine, version, said):
    world.objects["/version"]["gitVersion"] = version
    (line,) = await examine("api-server")
    assert line.startswith(f"{said} api-server: ")


@pytest.mark.parametrize("path", ["/apis/trainer.kubeflow.org/v1alpha1", "/apis/jobset.x-k8s.io/v1alpha2"])
async def test_a_kind_that_is_not_served_is_an_error(world, examine, path):
    del world.objects[path]
    found = await examine("api-server")
    assert (
        f"error api-server: the API server does not serve {'trainjobs' if 'trainer' in path else 'jobsets'}" in found[0]
    )


@pytest.mark.parametrize("served", [True, False])
async def test_profiles_need_an_api_server_with_claims(world, examine, served):
    world.configure("profiles: {four: {deviceClass: gpu.example.com}}")
    if served:
        world.objects["/apis/resource.k8s.io/v1"] = {"resources": []}
    found = await examine("api-server")
    assert any("does not serve resource.k8s.io/v1" in line for line in found) is not served


@pytest.mark.parametrize(
    ("image", "said"),
    [
        (f"{TRAINER}:v2.3.7", "ok versions: Trainer is v2.3.7; Muster was tested with v2.3.0"),
        (f"{TRAINER}:v2.3.0@sha256:{'0' * 64}", "ok versions: Trainer is v2.3.0;"),
        (f"mirror.example:5000/{TRAINER}:v2.3.0", "ok versions: Trainer is v2.3.0;"),
        (f"{TRAINER}:v2.4.0", "warning versions: Trainer is v2.4.0; Muster was tested with v2.3.0"),
        (f"{TRAINER}:latest", f"warning versions: the image {TRAINER}:latest of Trainer does not show its version"),
        (TRAINER, f"warning versions: the image {TRAINER} of Trainer does not show its version"),
        ("example.org/other:v2.3.0", "warning versions: no Deployment of Trainer was found"),
    ],
)
async def test_trainer_is_judged_by_the_tag_of_its_image(world, examine, image, said):
    world.objects[worlds.DEPLOYMENTS]["items"][0] = worlds.deployment("trainer", image)
    found = await examine("versions")
    assert any(line.startswith(said) for line in found), found


async def test_an_installation_of_another_version_than_this_command_is_told(world, examine):
    own = metadata.version("muster-admission")
    for tag in ("9.9.9", own):
        world.objects[worlds.DEPLOYMENTS]["items"].append(
            worlds.deployment("muster", f"r.example/muster-webhook:{tag}")
        )
    found = [line for line in await examine("versions") if "Muster is" in line]
    what = f"the installed Muster is 9.9.9, but this command checks for {own}"
    assert found == [f"warning versions: {what}; use `muster` 9.9.9, or upgrade the installation to {own}"]


async def test_deployments_are_found_by_label_in_all_namespaces(world, examine):
    await examine("versions")
    (query,) = [query for _, path, query in world.seen if path == worlds.DEPLOYMENTS]
    assert query["labelSelector"] == "app.kubernetes.io/name in (muster,trainer,kubeflow-trainer,jobset)"

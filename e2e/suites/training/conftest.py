"""What every training needs: nodes that have the images, and a small model with data, made on the spot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.suites.support import documents, nodeimages, spaces, spares, waits
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space
from e2e.suites.support.spares import Spare
from e2e.suites.training import runs

_MODELS = Path(__file__).parents[2] / "models"
# safetensors writes files for their owner alone.
_MAKE = (
    f"python /program/make.py {runs.SHARED} && cp /program/*.py {runs.SHARED} && chmod -R a+rX {runs.SHARED}"
    f" && mkdir -p {runs.SHARED}/out && chmod 1777 {runs.SHARED}/out"
)


@pytest.fixture(scope="module", autouse=True)
def images(kubectl: Kubectl, request: pytest.FixtureRequest) -> None:
    """Asks for a module's `IMAGES`: our own node tier must have them; in another cluster the module is skipped."""
    nodeimages.need(kubectl, {runs.IMAGES[each] for each in request.module.IMAGES})


@pytest.fixture
def keeper(kubectl: Kubectl, space: Space, tmp_path: Path) -> Iterator[Spare]:
    """A Muster beside the installed one that keeps what guards report."""
    lease = {"namespace": space.name, "duration": 4, "deadline": 3, "retry": 0.5}
    with Spare(tmp_path, spares.kubeconfig(kubectl), {"trainings": {"enabled": True, "lease": lease}}) as begun:
        yield begun


@pytest.fixture(scope="session")
def models(kubectl: Kubectl) -> Iterator[None]:
    """A model and data sets, in the folder that trainings share."""
    space = Space(spaces.named("models"), kubectl).make()
    program = {path.name: path.read_text() for path in _MODELS.glob("*.py")}
    space.apply(documents.config_map("program", program)).expect()
    spec = runs.pod_spec("trl", ["sh", "-ec", _MAKE])
    spec["volumes"].append({"name": "program", "configMap": {"name": "program"}})
    node = spec["containers"][0]
    node["volumeMounts"].append({"name": "program", "mountPath": "/program"})
    # The kubelet makes a folder of a node for root alone; this pod opens it.
    node["securityContext"] = {"runAsUser": 0, "runAsGroup": 0}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "make"}, "spec": spec}
    space.create(pod).expect()

    def look() -> bool:
        found: dict[str, Any] = space.get("pods", "make") or {}
        phase = found["status"].get("phase")
        log = space.kubectl.run("logs", "make", "--namespace", space.name).out
        assert phase in {"Succeeded", "Failed"}, f"it is {phase}, and prints {log}"
        return bool(phase == "Succeeded") or pytest.fail(f"no models could be made: {log}")

    waits.until("models to be made", look, 180)
    yield
    space.remove()

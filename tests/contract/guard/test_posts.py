"""What is measured is taken by Trainer's own status server, from a plain program and beside transformers' callback."""

import json
import os
import socket
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from e2e.cluster import commands, places, toolchains
from muster.certs import authorities, leaves, pems

HERE = Path(__file__).parent
MODULE = HERE.parents[2] / "e2e" / "binaries" / "kubernetes"
ADDRESS = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs/job/status"
ASKED = {"MUSTER_EXPECTED_WORLD_SIZE": "1"}
SIZE = {"muster.dev/world-size": "1", "muster.dev/expected-world-size": "1"}


@pytest.fixture(scope="module")
def program():
    """Trainer's server, built from the version that the clusters of the tests have."""
    path = places.cache() / "statusserver"
    command = [toolchains.find(), "build", "-ldflags", "-s -w", "-o", path, HERE / "statusserver" / "main.go"]
    # As e2e.cluster.builds, whose compiled packages Go has kept.
    commands.run(command, folder=MODULE, environment={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"})
    return path


class Trainer:
    """The server, and what it applied to the TrainJob."""

    def __init__(self, process, environment):
        self._process = process
        self.environment = environment

    def applied(self):
        """End the server; return the statuses that it applied, in order."""
        self._process.terminate()
        lines = self._process.communicate(timeout=60)[0].splitlines()
        return [json.loads(line)["status"]["trainerStatus"] for line in lines]


@pytest.fixture
def trainer(program, tmp_path, free_port):
    now = datetime.now(UTC)
    authority = authorities.create(now)
    leaf = leaves.issue(authority, ("localhost",), now)
    folder = tmp_path / "trainer"
    folder.mkdir()
    for name, text in (
        ("ca.crt", authorities.bundle_pem(authority)), ("tls.crt", pems.certificate_pem(leaf.certificate)),
        ("tls.key", pems.key_pem(leaf.key)), ("token", b"of the pod"),
    ):  # fmt: skip
        (folder / name).write_bytes(text)
    command = [program, folder / "tls.crt", folder / "tls.key", str(free_port), folder / "token"]
    environment = {
        "KUBEFLOW_TRAINER_SERVER_URL": f"https://localhost:{free_port}{ADDRESS}",
        "KUBEFLOW_TRAINER_SERVER_CA_CERT": str(folder / "ca.crt"),
        "KUBEFLOW_TRAINER_SERVER_TOKEN": str(folder / "token"),
    }
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        _wait(free_port)
        yield Trainer(process, environment)
        process.kill()


@pytest.fixture
def free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


def _wait(port, seconds=60):
    """Wait until the server listens; it says nothing when it does."""
    until = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("localhost", port)).close()
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)
        else:
            return


def named(status):
    return {each["name"]: each["value"] for each in status["metrics"]}


def test_a_plain_program_has_its_size_in_the_status_of_the_trainjob(nodes, trainer):
    done = nodes("python", str(HERE / "programs" / "ddp.py"), "--alone", **ASKED, **trainer.environment)

    assert done.codes == [0], done.output
    last = named(trainer.applied()[-1])
    assert last.items() >= SIZE.items()
    assert float(last["muster.dev/first-step-seconds"]) > 0
    assert "takes no metrics" not in done.output


def test_a_training_that_is_ended_for_its_size_says_so_in_the_status(nodes, trainer):
    asked = {"MUSTER_EXPECTED_WORLD_SIZE": "2"}
    done = nodes("python", str(HERE / "programs" / "ddp.py"), "--alone", **asked, **trainer.environment)

    assert done.codes == [78], done.output
    assert named(trainer.applied()[-1]) == {
        "muster.dev/world-size": "1", "muster.dev/expected-world-size": "2", "muster.dev/verdict": "size-differs",
    }  # fmt: skip


def test_beside_transformers_callback_its_progress_and_metrics_stay(nodes, trainer):
    done = nodes("python", str(HERE / "programs" / "callback.py"), **ASKED, **trainer.environment)

    assert done.codes == [0], done.output
    last = trainer.applied()[-1]
    assert last["progressPercentage"] == 100
    assert last["estimatedRemainingSeconds"] == 0
    assert named(last).items() >= SIZE.items()
    assert "train_loss" in named(last)


def test_without_the_callback_the_guard_posts_by_itself(nodes, trainer):
    off = {"DISABLE_KUBEFLOW_INTEGRATION": "TRUE"}  # without it, transformers adds its callback to any `report_to`
    done = nodes("python", str(HERE / "programs" / "callback.py"), **off, **ASKED, **trainer.environment)

    assert done.codes == [0], done.output
    last = trainer.applied()[-1]
    assert named(last).items() >= SIZE.items()
    assert "progressPercentage" not in last


def test_of_several_ranks_one_posts(torchrun, trainer):
    done = torchrun(each=2, MUSTER_EXPECTED_WORLD_SIZE="2", **trainer.environment)

    assert done.codes == [0], done.output
    assert all(named(each)["muster.dev/world-size"] == "2" for each in trainer.applied())


def test_a_server_that_is_not_there_delays_nothing_and_harms_nothing(nodes, free_port):
    url = {"KUBEFLOW_TRAINER_SERVER_URL": f"https://localhost:{free_port}{ADDRESS}"}
    done = nodes("python", str(HERE / "programs" / "ddp.py"), "--alone", **ASKED, **url)

    assert done.codes == [0], done.output
    assert done.output.count("takes no metrics") == 1

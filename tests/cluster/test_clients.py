"""Importing the client of the API server brings its asynchronous half alone; whoever wants the other one gets it."""

from __future__ import annotations

import subprocess
import sys

import pytest

_API = "import sys; from muster.webhook.cluster import api; loaded = set(sys.modules);"


@pytest.mark.parametrize(
    "program",
    [
        f"{_API} assert not loaded & {{'kubernetes.client', 'requests', 'oauthlib'}}, loaded",
        f"{_API} import kubernetes; assert not hasattr(kubernetes, '__wrapped__'); assert kubernetes.client.CoreV1Api",
        f"{_API} from kubernetes import client; assert client.CoreV1Api; import kubernetes.aio; kubernetes.aio.client",
        "import kubernetes; from muster.webhook.cluster import api; assert kubernetes.client and api.client.ApiClient",
    ],
)
def test_the_client_is_loaded_by_halves(program):
    done = subprocess.run(
        [sys.executable, "-W", "error::ImportWarning", "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")

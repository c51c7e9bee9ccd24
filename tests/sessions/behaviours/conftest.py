from __future__ import annotations

import gc
import warnings

import pytest
import tinker

from tests.sessions.gateways import Torch


@pytest.fixture(scope="package")
def torch_gateway(tmp_path_factory):
    with Torch(tmp_path_factory.mktemp("gateway")) as made:
        yield made


@pytest.fixture(scope="package")
def service(torch_gateway):
    with tinker.ServiceClient(base_url=torch_gateway.url, api_key=torch_gateway.key) as made:
        yield made
    del made
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # of sockets that the client leaves to the collector
        gc.collect()


@pytest.fixture
def model(service, torch_gateway):
    """Make models, each from the same first values."""
    return lambda seed=3: service.create_lora_training_client(str(torch_gateway.base), rank=4, seed=seed).result()

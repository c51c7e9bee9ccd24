"""Which Trainer a live cluster has: what its API server serves, unless the configuration says it."""

from __future__ import annotations

import pytest

from muster.strategies.documents.runtimes import NEWEST, VERSIONS
from muster.webhook import configs
from muster.webhook.cluster import readers, trainers
from muster.webhook.server import clusters
from tests.support import waits


def serves(member):
    spec = {"properties": {"spec": {"properties": {member: {"type": "array"}}}}}
    return {"components": {"schemas": {"org.kubeflow.trainer.v1alpha1.TrainJob": spec}}}


async def test_the_service_learns_the_version_from_the_api_server(server, api):
    server.openapi = serves("podSpecOverrides")
    live = clusters.LiveCluster(api, configs.ClusterSettings())
    try:
        await waits.until(lambda: readers.trainer_of(live.reader) is VERSIONS["2.0"])
    finally:
        await live.stop()


async def test_the_configuration_wins_over_what_is_served(server, api):
    server.openapi = serves("podSpecOverrides")
    live = clusters.LiveCluster(api, configs.ClusterSettings(trainer="2.1"))
    try:
        assert readers.trainer_of(live.reader) is VERSIONS["2.1"]
    finally:
        await live.stop()


@pytest.mark.parametrize("answer", [{}, {"components": {}}])
async def test_where_nothing_is_served_the_newest_is_meant(server, api, answer):
    server.openapi = answer
    assert await trainers.read(api, 5) is None
    live = clusters.LiveCluster(api, configs.ClusterSettings())
    assert readers.trainer_of(live.reader) is NEWEST
    await live.stop()

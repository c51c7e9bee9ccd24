from __future__ import annotations

import sys

import pytest
import yaml

from bench.peers.labs import Lab
from bench.scaling import services
from e2e.cluster import places, processes
from muster.audit import chain
from muster.certs import material_sources


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """A lab without a cluster, whose service reads files."""
    where = places.Places(tmp_path / "state")
    where.make()
    folder = services.trust(where).parent
    names = ("127.0.0.1", "localhost", "muster.muster-system.svc")
    material_sources.SelfSignedSource(names, directory=folder).current()
    config = {
        "server": {"host": "127.0.0.1", "port": 0, "readinessDelay": 0},
        "tls": {"certFile": f"{folder}/tls.crt", "keyFile": f"{folder}/tls.key", "caFile": f"{folder}/ca.crt"},
        "cluster": {"source": "files", "files": [str(places.REPOSITORY / "manifests" / "runtimes")]},
    }
    path = where.configs / "muster.yaml"
    path.write_text(yaml.safe_dump(config))
    command = (sys.executable, "-m", "muster", "serve", "--config", str(path))
    processes.Component("muster", command, (("PYTHONPATH", str(places.REPOSITORY)),)).save(where)
    started, start = [], processes.start

    def remembered(*given):
        started.append(start(*given))
        return started[-1]

    monkeypatch.setattr(processes, "start", remembered)
    yield Lab(where, None, tmp_path, {})
    processes.end_all(where)
    for each in started:
        each.wait(10)


@pytest.mark.thorough
def test_every_setting_is_served_in_each_round_and_nothing_is_left_running(lab):
    settings = (services.Setting("to a file", replicas=2), services.Setting("to standard output", file=False))
    found = services.taken_turns(lab, settings, 2, 0.2)

    assert [(each.setting, each.round) for each in found] == [
        ("to a file", 1),
        ("to standard output", 1),
        ("to standard output", 2),
        ("to a file", 2),
    ]
    assert all(each.rate > 0 and each.cpu > 0 and each.p50 <= each.p99 for each in found)
    assert found[0].memory > 1.5 * found[1].memory
    assert processes.running(lab.where) == {}
    for replica in range(2):
        path = lab.where.log(f"serving-0-{replica}-audit")
        assert chain.parse(path.read_bytes().splitlines()[0])

from __future__ import annotations

import re

import pytest

from e2e.cluster.places import REPOSITORY

PINS = REPOSITORY / "e2e" / "binaries"
COREFILE = REPOSITORY / "e2e" / "cluster" / "node" / "proxies.py"


def required(folder):
    """Module to version, of what a go.mod requires and does not replace; of kubernetes, what is built."""
    text = (PINS / folder / "go.mod").read_text()
    replaced = dict(re.findall(r"^(?:replace )?\t?(\S+) => \S+ ?(v\S+)?$", text, re.MULTILINE))
    found = dict(re.findall(r"^(?:require )?\t?(\S+\.\S+) (v\S+)(?: // indirect)?$", text, re.MULTILINE))
    if folder == "kubernetes":
        return found | {path: version for path, version in replaced.items() if version}
    return {path: version for path, version in found.items() if path not in replaced}


@pytest.mark.parametrize("folder", ["coredns", "dradriver", "../../bench/peers/binaries/ours"])
def test_what_is_built_beside_kubernetes_has_its_versions_so_that_it_is_compiled_once(folder):
    kubernetes, own = required("kubernetes"), required(folder)

    shared = kubernetes.keys() & own.keys()
    assert len(shared) > 40
    assert {path: own[path] for path in shared if own[path] != kubernetes[path]} == {}, "run e2e/binaries/align.sh"


def test_the_dns_has_the_plugins_that_its_configuration_names():
    compiled = re.findall(r'_ "github.com/coredns/coredns/plugin/(\w+)"', (PINS / "coredns" / "main.go").read_text())
    named = re.findall(
        r"^    (\w+)(?: .*)?$", COREFILE.read_text().partition('"""\\')[2].partition('"""')[0], re.MULTILINE
    )

    assert set(named) == set(compiled)

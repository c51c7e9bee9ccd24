"""`roles:` of the configuration file, and what becomes of it."""

from __future__ import annotations

import pytest

from muster.strategies.frameworks import builtin
from muster.webhook import configs

REGISTRY = builtin.load(plugins=False)
GOOD = b"""
profiles:
  session: {deviceClass: gpu.example.com}
roles:
  sampler:
    nodeLabels: {pool: [sampling, both], example.com/tier: gold}
    tolerations:
      - {key: dedicated, value: sampler, effect: NoSchedule}
      - {operator: Exists, effect: NoExecute, tolerationSeconds: 30}
    apart: true
    spread: topology.kubernetes.io/zone
    profile: session
  trainer: {}
"""


def test_a_role_reaches_the_policy_as_it_was_written():
    roles = configs.parse(GOOD, "muster.yaml").policy(REGISTRY).roles
    sampler = roles["sampler"]
    assert sampler.node_labels == {"pool": ("sampling", "both"), "example.com/tier": ("gold",)}
    assert sampler.tolerations == (
        {"key": "dedicated", "operator": "Equal", "value": "sampler", "effect": "NoSchedule"},
        {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30},
    )
    assert (sampler.apart, sampler.spread, sampler.profile) == (True, "topology.kubernetes.io/zone", "session")
    assert sampler.nodes == "nodes with pool=sampling|both, example.com/tier=gold"
    assert roles["trainer"].nodes == "all nodes"
    assert not roles["trainer"].apart


def test_without_the_key_no_role_is_placed():
    assert configs.parse(b"", "muster.yaml").policy(REGISTRY).roles == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"roles: {critic: {}}", "roles.critic"),
        (b"roles: {sampler: {nodelabels: {}}}", "roles.sampler.nodelabels: is not a key of the configuration"),
        (b"roles: {sampler: {nodeLabels: {pool: []}}}", "roles.sampler.nodeLabels.pool"),
        (b"roles: {sampler: {nodeLabels: {pool: 1}}}", "roles.sampler.nodeLabels.pool"),
        (b"roles: {sampler: {nodeLabels: {'a b': x}}}", "roles.sampler.nodeLabels.a b"),
        (b"roles: {sampler: {nodeLabels: {pool: 'a b'}}}", "roles.sampler.nodeLabels.pool[0]: 'a b'"),
        (b"roles: {sampler: {tolerations: [{value: x}]}}", "key: is required unless operator is Exists"),
        (b"roles: {sampler: {tolerations: [{key: a, operator: Exists, value: x}]}}", "value: has no effect"),
        (b"roles: {sampler: {tolerations: [{key: a, tolerationSeconds: 1}]}}", "tolerationSeconds: is allowed with"),
        (b"roles: {sampler: {tolerations: [{key: a, effect: Never}]}}", "roles.sampler.tolerations[0].effect: 'Never'"),
        (b"roles: {sampler: {profile: Big}}", "roles.sampler.profile: 'Big'"),
        (b"roles: {sampler: {profile: gone}}", "gone"),
    ],
)
def test_what_kubernetes_would_refuse_is_refused_in_the_file(text, said):
    with pytest.raises(configs.ConfigError, match=r"^muster\.yaml: ") as refused:
        configs.parse(text, "muster.yaml")
    assert said in str(refused.value)


def test_a_running_service_takes_roles_over():
    old, new = configs.parse(b"", "x"), configs.parse(GOOD, "x")
    assert old.restart_needed(new) == []

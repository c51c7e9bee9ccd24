"""`profiles:` of the configuration file: what is taken over, and what is refused, with its path."""

from __future__ import annotations

import pytest

from muster.strategies.frameworks import builtin
from muster.strategies.platform.profiles import Profile, claim_names, claim_spec, has_claim
from muster.webhook import configs

WHOLE = """
profiles:
  h100x4:
    deviceClass: gpu.nvidia.com
    count: 4
    selectors: ["device.attributes['gpu.nvidia.com'].productName == 'H100'"]
    matchAttributes: [resource.kubernetes.io/pcieRoot]
    config: [{driver: gpu.nvidia.com, parameters: {kind: GpuConfig, sharing: {strategy: TimeSlicing}}}]
    replaces: nvidia.com/gpu
    memory: 16Gi
  sampler:
    deviceClass: gpu.nvidia.com
    sharing: shared
    maxSessions: 3
    claims: 2
    whenFull: deny
  part:
    deviceClass: gpu.example.com
    capacity: {sessions: "1"}
frameworks:
  vllm: {profile: sampler}
roles:
  trainer: {profile: h100x4}
"""


def policy(text):
    return configs.parse(text.encode(), "muster.yaml").policy(builtin.load(plugins=False))


def refused(members):
    with pytest.raises(configs.ConfigError) as caught:
        policy(f"profiles: {{one: {{deviceClass: gpu.nvidia.com, {members}}}}}")
    return str(caught.value)


def test_a_profile_is_what_the_file_says():
    made = policy(WHOLE)
    assert made.profiles["h100x4"] == Profile(
        "h100x4",
        "gpu.nvidia.com",
        count=4,
        selectors=("device.attributes['gpu.nvidia.com'].productName == 'H100'",),
        match_attributes=("resource.kubernetes.io/pcieRoot",),
        config=(
            {"driver": "gpu.nvidia.com", "parameters": {"kind": "GpuConfig", "sharing": {"strategy": "TimeSlicing"}}},
        ),
        replaces="nvidia.com/gpu",
        memory="16Gi",
    )
    sampler = made.profiles["sampler"]
    assert (sampler.is_shared, sampler.max_sessions, sampler.claims, sampler.when_full) == (True, 3, 2, "deny")
    assert made.profiles["part"].capacity == {"sessions": "1"}
    assert made.framework("vllm").settings.profile == "sampler"
    assert made.roles["trainer"].profile == "h100x4"


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ("count: 0", "profiles.one.count: 0"),
        ("count: -1", "profiles.one.count: -1"),
        ("count: 129", "profiles.one.count: 129"),
        ("maxSessions: 0, sharing: shared", "profiles.one.maxSessions: 0"),
        ("maxSessions: 257, sharing: shared", "profiles.one.maxSessions: 257"),
        ("claims: 0, sharing: shared", "profiles.one.claims: 0"),
        ("maxSessions: 2", "profiles.one: maxSessions: cannot be used without sharing: shared"),
        ("whenFull: deny", "profiles.one: whenFull: cannot be used without sharing: shared"),
        ("sharing: shared, capacity: {sessions: '1'}", "profiles.one: capacity: needs sharing: dedicated"),
        ("whenFull: maybe, sharing: shared", "profiles.one.whenFull: 'maybe'"),
        ("selectors: ['']", "profiles.one.selectors[0]: ''"),
        ("matchAttributes: [pcieRoot]", "profiles.one.matchAttributes[0]: 'pcieRoot'"),
        ("replaces: gpu", "profiles.one.replaces: 'gpu'"),
        ("memory: much", "profiles.one.memory: 'much': 'much' is not a Kubernetes quantity"),
        ("memory: '0'", "profiles.one.memory: '0': must be more than 0"),
        ("capacity: {sessions: none}", "profiles.one.capacity.sessions: 'none'"),
        ("config: [{driver: gpu.nvidia.com}]", "profiles.one.config[0].parameters"),
        ("devices: 3", "profiles.one.devices: is not a key of the configuration"),
        (
            "sharing: shared, config: [{driver: d.io, parameters: {sharing: {strategy: Exclusive}}}]",
            "profiles.one: config[0].parameters.sharing.strategy: 'Exclusive' allows only one pod on the device",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_by_its_path(members, said):
    assert f"muster.yaml: {said}" in refused(members)


@pytest.mark.parametrize("name", ["none", "A", "a.b", "-a", "a" * 41])
def test_a_name_that_no_object_could_have_is_refused(name):
    with pytest.raises(configs.ConfigError, match=r"profiles\."):
        policy(f"profiles: {{{name}: {{deviceClass: gpu.nvidia.com}}}}")


def test_a_profile_that_policy_gives_must_be_one_of_the_file():
    with pytest.raises(configs.ConfigError) as caught:
        policy("frameworks: {trl: {profile: big}}\nroles: {sampler: {profile: small}}\nprofiles: {}")
    text = str(caught.value)
    assert "frameworks.trl.profile: 'big'; roles.sampler.profile: 'small': there is no profile of this name" in text


def test_profiles_take_effect_without_a_restart():
    assert configs.parse(WHOLE.encode(), "a").restart_needed(configs.parse(b"", "b")) == []


def test_only_the_claims_of_a_shared_profile_are_its_claims():
    shared = Profile("a", "c", sharing="shared", claims=3)
    assert all(has_claim(shared, name) for name in claim_names(shared))
    for other in ("muster-a-3", "muster-a-03", "muster-a-", "muster-a--1", "muster-b-0", "a-0", None, "muster-a-²"):
        assert not has_claim(shared, other)
    assert not has_claim(Profile("a", "c"), "muster-a-0")


def test_the_claim_of_a_profile_says_all_of_it():
    spec = claim_spec(policy(WHOLE).profiles["h100x4"])
    (request,) = spec["devices"]["requests"]
    assert request["exactly"]["count"] == 4
    assert spec["devices"]["constraints"][0]["matchAttribute"] == "resource.kubernetes.io/pcieRoot"

"""What a Gateway writes for its engines, before the admission that rules everybody's JobSets: both agree."""

from __future__ import annotations

import copy
import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as how_many
from hypothesis import strategies as st

from muster.sessions.platforms import manifests, spills
from muster.sessions.platforms.manifests import Settings, Volume
from muster.strategies.platform.placements import Role
from muster.strategies.platform.profiles import Profile
from muster.webhook.admission import accounts
from tests.support import admissions, devices, jobs

ADDED = {"applied", "claim", "seat", "profile-label", "memory", "node-affinity", "tolerations", "spread", "label"}
TOLERATION = {"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}
PROFILES = (
    Profile("own", devices.CLASS, count=2, memory="8Gi"),
    Profile("shared", devices.CLASS, sharing="shared", max_sessions=2, claims=3, memory="16Gi"),
)
NAMES = st.from_regex(r"[a-z][-a-z0-9]{0,30}[a-z0-9]", fullmatch=True)
FOLDERS = st.lists(NAMES, max_size=3).map("/".join)
VOLUMES = st.builds(Volume, NAMES, FOLDERS)
ROOTS = st.lists(NAMES, min_size=1, max_size=3).map(lambda parts: Path("/", *parts))
few = how_many(max_examples=30, deadline=None)
ARGUMENTS = {role: ["--base", "/m", f"--{role}", "some.module:Class"] for role in manifests.ROLES}

settings = st.builds(
    Settings,
    gateway=NAMES,
    namespace=st.just(jobs.NAMESPACE),
    peers=NAMES,
    image=st.sampled_from(("engine:1", f"registry.example.org/a/engine@sha256:{'0' * 64}")),
    volume=VOLUMES,
    root=ROOTS,
    base=ROOTS,
    base_volume=st.none() | VOLUMES,
    sampler_image=st.none() | st.just("engine:vllm"),
    profile=st.none() | st.sampled_from(("own", "shared")),
    memory=st.none() | st.sampled_from(("16Gi", "512Mi")),
)
roles = st.sampled_from(
    (
        {},
        {
            "trainer": Role("trainer", {"pool": ("gpu",)}, (TOLERATION,)),
            "sampler": Role("sampler", {"pool": ("gpu", "both")}, spread="zone"),
        },
    )
)


def policy(placed):
    return devices.policy(*PROFILES, roles=placed)


@few
@given(settings=settings, placed=roles)
def test_admission_refuses_nothing_and_adds_only_devices_placement_and_memory(settings, placed):
    made = manifests.job_set(settings, ARGUMENTS)
    how = {"policy": policy(placed)}
    decision = admissions.decide(made, devices.device_class(), **how)
    assert {change.rule.rpartition("/")[2] for change in decision.changes} <= ADDED
    found = admissions.decide(decision.document, devices.device_class(), phase="validate", **how).findings
    assert [str(each) for each in found if each.severity.value == "error"] == []
    _holds(decision.document, made)


@few
@given(settings=settings, placed=roles)
def test_what_a_gateway_changes_later_is_let_through_as_it_is(settings, placed):
    how = {"policy": policy(placed)}
    old = admissions.decide(manifests.job_set(settings, ARGUMENTS), devices.device_class(), **how).document
    new = copy.deepcopy(old)
    new["spec"]["suspend"] = False
    new["metadata"]["annotations"] |= {manifests.TERM: "2", manifests.SEATED: "true"}
    update = {**how, "operation": "UPDATE", "old": old}
    assert admissions.decide(new, devices.device_class(), **update).verdict == "unchanged"
    found = admissions.decide(new, devices.device_class(), phase="validate", **update).findings
    assert [str(each) for each in found if each.severity.value == "error"] == []


def _holds(stored, made):
    """All that was written is there; lists may have got more at their end."""
    if isinstance(made, dict):
        for key, value in made.items():
            _holds(stored[key], value)
    elif isinstance(made, list):
        assert len(stored) >= len(made)
        for there, value in zip(stored, made, strict=False):
            _holds(there, value)
    else:
        assert stored == made


@few
@given(settings=settings)
def test_the_pods_have_no_rights_and_see_neither_the_journal_nor_the_key(settings):
    made = manifests.job_set(settings, ARGUMENTS)
    for job in made["spec"]["replicatedJobs"]:
        pod = job["template"]["spec"]["template"]["spec"]
        assert pod["automountServiceAccountToken"] is False
        (container,) = pod["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        mounts = [each for each in container["volumeMounts"] if each["name"] == "root"]
        assert {Path(each["mountPath"]).name for each in mounts} <= set(manifests.FOLDERS)
        assert {Path(each["subPath"]).name for each in mounts} <= set(manifests.FOLDERS)
        assert all(each.get("readOnly") for each in mounts) == (job["name"] == "sampler")


@few
@given(settings=settings, uid=NAMES)
def test_everything_goes_with_the_jobset(settings, uid):
    owned = (
        manifests.service_account(settings, uid),
        manifests.secret(settings, uid, "t"),
        manifests.policy(settings, uid),
    )
    for each in owned:
        (owner,) = each["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"]) == ("JobSet", manifests.name_of(settings), uid)
        assert manifests.is_ours(settings, each)


def example(**changed):
    given = {"gateway": "a", "namespace": "b", "peers": "c", "image": "d", "volume": Volume("e"), **changed}
    return Settings(root=Path("/r"), base=Path("/m"), **given)


def test_only_the_gateway_reaches_the_pods_and_they_reach_nobody():
    spec = manifests.policy(example(), "uid")["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert spec["egress"] == []
    ((peer,), (port,)) = (spec["ingress"][0][member] for member in ("from", "ports"))
    assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "c"}
    assert peer["podSelector"]["matchLabels"]["app.kubernetes.io/instance"] == "a"
    assert port["port"] == manifests.PORT
    pods = manifests.job_set(example(), ARGUMENTS)["spec"]["replicatedJobs"]
    for job in pods:
        labels = job["template"]["spec"]["template"]["metadata"]["labels"]
        assert spec["podSelector"]["matchLabels"].items() <= labels.items()
        assert not peer["podSelector"]["matchLabels"].items() <= labels.items()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("gateway", ""),
        ("gateway", "A"),
        ("gateway", "a" * 41),
        ("gateway", "1a"),
        ("namespace", "a.b"),
        ("peers", "a_b"),
        ("profile", "a/b"),
        ("spill", ("a/b",)),
        ("memory", "16 GiB"),
        ("memory", "0"),
        ("image", ""),
        ("image", "a b"),
    ],
)
def test_what_kubernetes_would_refuse_is_refused_with_what_to_pass(option, value):
    with pytest.raises(ValueError, match=r"^--[-a-z]+: .*: pass "):
        example(**{option: value})


@pytest.mark.parametrize("text", ["", ":a", "a:/b", "a:b/", "a:../b", "a:b//c", "A", "a:."])
def test_a_folder_outside_of_its_volume_is_refused(text):
    with pytest.raises(ValueError, match="pass CLAIM or CLAIM:FOLDER"):
        Volume.parsed(text)


@pytest.mark.parametrize("profiles", [("a", ("a",)), ("a", ("b", "b"))])
def test_a_profile_that_is_named_twice_is_refused(profiles):
    with pytest.raises(ValueError, match=r"^--profile: '[ab]': is named twice: pass each profile once$"):
        example(profile=profiles[0], spill=profiles[1])


LONG = "p" * 40


@pytest.mark.parametrize("when_full", ["wait", "deny"])
@pytest.mark.parametrize("held", [0, 1, 2])
def test_what_admission_says_of_seats_is_understood(when_full, held):
    how = {
        "policy": devices.policy(
            Profile(LONG, devices.CLASS, sharing="shared", max_sessions=2, claims=2, when_full=when_full)
        )
    }
    pods = ["x" * 253, "y" * 253][:held]
    cluster = [devices.device_class(), *(devices.seated(f"muster-{LONG}-{number}", *pods) for number in (0, 1))]
    asked = spills.unstored(example(), manifests.job_set(example(profile=LONG), ARGUMENTS))
    made = admissions.decide(asked, *cluster, **how).document
    answer = admissions.respond(made, *cluster, phase="validate", **how)
    told = [*answer.get("warnings", ()), (answer.get("status") or {}).get("message", "")]
    assert any(map(spills.is_full, told)) == (held > 0)
    assert answer["allowed"] or (when_full, held > 0) == ("deny", True)


def test_of_a_jobset_that_waits_admission_says_whether_its_own_claim_is_full():
    how = {"policy": devices.policy(Profile("seats", devices.CLASS, sharing="shared", max_sessions=2, claims=2))}
    settings, place = example(profile="seats", namespace=jobs.NAMESPACE), devices.device_class()
    stored = admissions.decide(manifests.job_set(settings, ARGUMENTS), place, **how).document
    stored = {**stored, "metadata": {**stored["metadata"], "uid": "u", "resourceVersion": "1"}, "status": {}}
    (own,) = {devices.pod_of(stored, job)["resourceClaims"][0]["resourceClaimName"] for job in (0, 1)}

    def told(document, claim, *pods):
        asked, there = spills.unstored(settings, document), (place, devices.seated(claim, *pods))
        decided = admissions.decide(asked, *there, **how)
        answer = admissions.respond(decided.document, *there, phase="validate", **how)
        assert answer["allowed"]
        return any(map(spills.is_full, answer.get("warnings", ())))

    assert told(stored, own, "x", "y")
    assert not told(stored, own)
    assert not told(stored, "muster-seats-1", "x", "y")
    assert not told(manifests.job_set(settings, ARGUMENTS), own, "x", "y")  # anew, it would be given the other claim


def test_the_audit_log_names_the_profile_and_the_claim_that_both_engines_got():
    how = {"policy": devices.policy(Profile("spare", devices.CLASS, sharing="shared", max_sessions=2))}
    settings = example(profile="spare", namespace=jobs.NAMESPACE)
    decision = admissions.decide(manifests.job_set(settings, ARGUMENTS), devices.device_class(), **how)
    record = accounts.record(decision, datetime.datetime.now(datetime.UTC), 0.0)
    told = {each["field"]: each["after"] for each in record["changes"]}
    assert told["metadata.labels[muster.dev/profile]"] == "spare"
    claims = [value for field, value in told.items() if field.endswith(".resourceClaims")]
    assert claims == [[{"name": "devices", "resourceClaimName": "muster-spare-0"}]] * 2


def test_other_settings_have_another_digest():
    assert manifests.digest(example(), ARGUMENTS) == manifests.digest(example(), ARGUMENTS)
    assert manifests.digest(example(), ARGUMENTS) != manifests.digest(example(image="x"), ARGUMENTS)

"""Rights: each for something that is said, narrowed by name where a name is known, and none twice."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from types import ModuleType

from _pytest.mark import ParameterSet

from e2e.suites.reports import reportings, test_reports
from e2e.suites.rights import (
    test_anchors,
    test_caches,
    test_certificates,
    test_controllers,
    test_dry_runs,
    test_events,
    test_trainings,
)
from tests.manifests import files, rights

FOLDERS = ("base", "overlays/production")
ROLES = [
    document
    for folder in FOLDERS
    for path in sorted((files.FOLDER / folder).glob("rbac*.yaml"))
    for document in files.documents(path)
    if "rules" in document
]
SUITES = (test_anchors, test_caches, test_controllers, test_certificates, test_dry_runs, test_events, test_trainings)
NAMED = {
    "secrets",
    "leases",
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
    "reports",
    "policyreports",
}


def test_the_table_says_of_each_right_what_fails_without_it():
    assert {right for role in ROLES for right in rights.of(role)} == set(rights.RIGHTS)


def test_each_right_is_taken_away_in_a_real_cluster():
    found = {right for suite in SUITES for right in taken_by(suite)}
    for resource, file in reportings.FORMATS.values():
        role = file.removesuffix(".yaml").replace("rbac", "muster")
        found |= {(role, resource, verb) for verb in test_reports.VERBS}
    assert found == set(rights.RIGHTS)


def test_no_right_is_given_twice():
    given = Counter(right for role in ROLES for right in rights.of(role))
    assert max(given.values()) == 1


def test_what_has_a_known_name_is_reached_by_that_name_alone():
    for role in ROLES:
        for rule in role["rules"]:
            if NAMED & set(rule["resources"]):
                assert rule.get("resourceNames") or rule["verbs"] == ["create"], rule


def test_configmaps_are_written_by_name_and_in_one_namespace_only():
    for role in ROLES:
        for rule in role["rules"]:
            if "configmaps" in rule["resources"] and {"create", "update"} & set(rule["verbs"]):
                assert (role["kind"], role["metadata"]["namespace"]) == ("Role", "muster-system")
                assert rule.get("resourceNames") == ["muster-audit-anchors"] or rule["verbs"] == ["create"]


def test_nothing_is_given_wholesale():
    for role in ROLES:
        for rule in role["rules"]:
            words = [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
            assert not {"*", "deletecollection", "escalate", "bind", "impersonate"} & set(words), rule


def test_secrets_are_reached_in_one_namespace_only():
    for role in ROLES:
        if any("secrets" in rule["resources"] for rule in role["rules"]):
            assert (role["kind"], role["metadata"]["namespace"]) == ("Role", "muster-system")


def test_every_rule_says_beside_it_what_it_is_for():
    for folder in FOLDERS:
        for path in (files.FOLDER / folder).glob("rbac*.yaml"):
            lines = path.read_text().splitlines()
            for before, line in itertools.pairwise(lines):
                # Rules of one comment follow one another: a Lease is made, and then reached by its name.
                if line.startswith("  - apiGroups:"):
                    assert before.startswith(("  #", "    verbs:", "rules:")), f"{path.name}: {line}"


def taken_by(suite: ModuleType) -> Iterator[tuple[str, str, str]]:
    """Yield the rights that the tests of a module are run for."""
    for test in vars(suite).values():
        for mark in getattr(test, "pytestmark", ()):
            if mark.name == "parametrize" and mark.args[0] == "right":
                yield from (case.values[0] if isinstance(case, ParameterSet) else case for case in mark.args[1])

from __future__ import annotations

from collections import Counter

from e2e import plans
from e2e.cluster import builds, places
from e2e.cluster.bringups import MODULES
from e2e.cluster.node import trainings

TIERS = ("control-plane", "node")
SUITES = {file.parent.name for file in (places.REPOSITORY / "e2e" / "suites").glob("*/test_*.py")}


def test_every_suite_runs_once_in_each_tier_but_those_that_need_one_or_are_asked_for_by_name():
    runs = plans.everything(TIERS)

    wanted = {(tier, suite) for tier in TIERS for suite in SUITES - set(plans.BY_NAME)}
    wanted -= {("node", suite) for suite in plans.ONE_TIER}
    # The suites whose tests run side by side are one run, which passes over those that its cluster cannot have.
    wanted -= {("control-plane", suite) for suite in plans.NEEDS_NODES if suite not in plans.TOGETHER}
    assert Counter((each.tier, suite) for each in runs for suite in each.suites) == dict.fromkeys(wanted, 1)
    assert not any(each.quick for each in runs)


def test_the_quick_runs_have_a_cluster_of_each_tier_at_once_and_every_suite_that_needs_no_further_programs():
    runs = plans.quick(TIERS)

    assert sorted(each.tier for each in runs[:2]) == sorted(TIERS)
    assert {each.tier for each in runs[2:]} == {"control-plane"}
    assert all(each.quick for each in runs)
    assert all(count == 1 for count in Counter((run.tier, suite) for run in runs for suite in run.suites).values())
    assert {suite for each in runs for suite in each.suites} == SUITES - {"kueue", "releases", "load"}
    assert plans.modules({suite for each in runs for suite in each.suites}, quick=True) == set()


def test_the_quick_runs_end_with_a_real_training_in_real_pods():
    (node,) = plans.quick(["node"])

    assert "training" in node.suites
    assert list(plans.images(node.suites, quick=True)) == ["trl", "rl", "engine", "gateway", "foreign-pip"]


def test_thorough_tests_of_sessions_have_helm_beside_them():
    assert plans.modules(["sessions"], quick=False) == {"helm"}


def test_a_tier_that_this_machine_cannot_run_is_left_out():
    assert {each.tier for each in plans.everything(TIERS[:1])} == {"control-plane"}
    assert {each.tier for each in plans.quick(TIERS[:1])} == {"control-plane"}


def test_what_suites_need_can_be_built():
    assert plans.modules(SUITES, quick=False) | {name for names in MODULES.values() for name in names} <= {
        each.name for each in builds.MODULES
    }
    assert {*plans.images(SUITES, quick=False), *plans.PACKAGING_IMAGES} == set(trainings.RECIPES)

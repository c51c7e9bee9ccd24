from __future__ import annotations

from collections import Counter

from e2e import lanes, run
from e2e.cluster import places

TIERS = ("control-plane", "node")


def test_every_suite_runs_once_in_each_tier_but_those_that_need_one_or_are_asked_for_by_name():
    runs = lanes.runs(TIERS, run.TOGETHER)
    suites = {file.parent.name for file in (places.REPOSITORY / "e2e" / "suites").glob("*/test_*.py")}

    wanted = {(tier, suite) for tier in TIERS for suite in suites - set(run.BY_NAME)}
    wanted -= {("node", suite) for suite in run.ONE_TIER}
    # The suites whose tests run side by side are one run, which passes over those that its cluster cannot have.
    wanted -= {("control-plane", suite) for suite in run.NEEDS_NODES if suite not in run.TOGETHER}
    assert Counter((each.tier, suite) for each in runs for suite in each.suites) == dict.fromkeys(wanted, 1)


def test_a_tier_that_this_machine_cannot_run_is_left_out():
    assert {each.tier for each in lanes.runs(TIERS[:1], run.TOGETHER)} == {"control-plane"}

from __future__ import annotations

import orjson
import pytest

from bench.peers import pages, reports
from bench.scaling import axes, decisions, services
from bench.scaling import reports as scaling
from muster.webhook.admission.decisions import evaluate
from muster.webhook.admission.reviews import parse


@pytest.mark.parametrize("axis", axes.AXES, ids=lambda axis: axis.name)
def test_a_case_of_any_size_is_one_that_is_changed_and_allowed(axis):
    for size in (axis.sizes[0], axis.sizes[-1]):
        case = axis.make(size)
        decision = evaluate(parse(case.body, "mutate"), case.reader, case.policy)
        assert (decision.allowed, decision.verdict) == (True, "patched"), (axis.name, size)


def test_each_axis_has_as_many_as_it_says():
    replicated, containers, env, cached, registered = axes.AXES
    jobs = [orjson.loads(axis.make(16).body)["request"]["object"] for axis in (replicated, containers, env)]
    pods = [job["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"] for job in jobs]
    assert len(jobs[0]["spec"]["replicatedJobs"]) == 16
    assert len(pods[1]["containers"]) == 16
    assert len(pods[2]["containers"][0]["env"]) == 16
    assert len({each["metadata"]["name"] for each in axes.runtimes(16)}) == 16
    assert len(list(registered.make(50).policy.registry)) == 50
    assert cached.make(2).reader.whole


def test_a_review_that_is_refused_is_not_measured():
    document = orjson.loads(axes.AXES[0].make(1).body)
    document["request"]["object"]["spec"]["replicatedJobs"] = "none"
    with pytest.raises(ValueError, match="refused"):
        decisions.measured([axes.Axis("bad", (1,), lambda _: axes.Case(orjson.dumps(document)))], 1, 1)


@pytest.mark.thorough
def test_each_size_is_measured_in_both_phases_and_every_round_and_has_its_row():
    axis = axes.AXES[2]
    found = decisions.measured([axes.Axis(axis.name, (1, 2), axis.make)], 2, 2)
    assert sorted((each.size, each.phase, each.round) for each in found) == sorted(
        (size, phase, number) for size in (1, 2) for phase in ("mutate", "validate") for number in (1, 2)
    )
    assert all(each.first > 0 and each.again > 0 for each in found)
    table = decisions.table(found)
    assert len(table.splitlines()) == 2 + 2
    assert len({line.count("|") for line in table.splitlines()}) == 1


def test_the_plot_has_a_bar_for_each_size(tmp_path):
    found = [
        decisions.Timing("containers of a pod", size, phase, number, 2_000, 900.0, 100.0 * size)
        for size in (1, 4)
        for phase in ("mutate", "validate")
        for number in (1, 2)
    ]
    shown = decisions.plot(found, tmp_path / "plots")
    assert shown == "![Both phases of a decision, again, in µs](plots/scaling-decisions.svg)"
    drawn = (tmp_path / "plots" / "scaling-decisions.svg").read_text(encoding="utf-8")
    assert drawn.count("<rect") == 2
    assert "containers of a pod, 4" in drawn
    assert "800" in drawn


def _served():
    return [
        services.Served(setting.name, number, 900.0 + number, 2.0, 9.0, 0.9, 80.0)
        for number in (1, 2)
        for setting in services.SETTINGS[::-1]
    ]


def test_the_settings_stand_in_their_order_with_the_median_of_their_rounds():
    lines = services.served_table(_served()).splitlines()
    assert [line.split(" | ")[0].strip("| ") for line in lines[2:]] == [each.name for each in services.SETTINGS]
    assert "902 [901..902]" in lines[2]


def test_the_page_of_the_documentation_has_a_place_for_growth(tmp_path):
    page = tmp_path / "performance.md"
    page.write_text(reports.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    cached = [services.Cached(10, 0.5, 60.0, 70.0, 0.9)]
    pages.write(page, scaling.NAME, scaling.text([], _served(), cached))
    written = page.read_text(encoding="utf-8")
    assert "| audit to a file, 3 replicas |" in written
    assert "| 10 | 0.50 | 60 | 70 | 0.90 |" in written

from __future__ import annotations

import dataclasses
import math
from xml.etree import ElementTree

import pytest

from bench import figures
from bench.peers import aims, catalogue, changes, controllers, loads, pages, plots, policies, reports, rounds, tables
from bench.peers.rounds import Run
from e2e.cluster.errors import ClusterError


def _run(number, peer, workers, p50, cpu=0.0):
    return Run(number, peer, workers, 100, p50, 2 * p50, 3 * p50, 1000 / p50, cpu, 4.0, 50.0, 1.5, 0.01)


def _runs():
    found = []
    for number, base in ((1, 4.0), (2, 10.0), (3, 5.0)):
        for workers in rounds.LEVELS:
            found.append(_run(number, "none", workers, base))
            found += [_run(number, peer.name, workers, base + 2, 1.0) for peer in catalogue.PEERS[1:]]
    return found


def test_what_is_added_is_the_difference_within_a_round_so_that_a_slow_round_says_nothing():
    assert tables.added(_runs(), "cr-typed", "none", 1, lambda run: run.p50) == figures.Figure(2.0, 2.0, 2.0)


def test_a_ratio_is_that_of_the_same_round():
    runs = [_run(1, "a", 1, 4.0, 2.0), _run(1, "b", 1, 4.0, 1.0), _run(2, "a", 1, 4.0, 9.0), _run(2, "b", 1, 4.0, 3.0)]
    assert tables.ratio(runs, "a", "b", 1, lambda run: run.cpu) == figures.Figure(2.5, 2.0, 3.0)


def test_rounds_are_paired_by_their_number_and_not_by_the_order_in_which_they_stand():
    assert tables.added(_runs()[::-1], "native", "none", 16, lambda run: run.p50).median == 2.0


def test_a_peer_that_missed_a_round_is_compared_in_the_others():
    runs = [run for run in _runs() if (run.round, run.peer) != (2, "native")]
    runs = [dataclasses.replace(run, p50=99.0) if (run.round, run.peer) == (2, "none") else run for run in runs]
    assert tables.added(runs, "native", "none", 1, lambda run: run.p50) == figures.Figure(2.0, 2.0, 2.0)


def test_a_peer_that_never_worked_has_a_row_without_figures_and_the_page_says_why():
    runs = [run for run in _runs() if run.peer != "kyverno"]
    assert tables.added(runs, "kyverno", "none", 1, lambda run: run.p50) is None
    why = "`/root/x/kubectl apply` ended with 1:\nno"
    measured = reports.Measured(catalogue.PEERS, runs, {}, {}, [rounds.Failure(0, "kyverno", why)])
    written = reports.text(measured)
    assert "| Kyverno, MutatingPolicy | - | - | - | - | - | - |" in written
    assert "**Kyverno, MutatingPolicy failed before the first round:** `kubectl apply` ended with 1: no" in written


def test_a_ratio_to_nothing_is_no_ratio():
    runs = [_run(1, "a", 1, 4.0, 2.0), _run(1, "b", 1, 4.0, 0.0)]
    assert tables.ratio(runs, "a", "b", 1, lambda run: run.cpu) is None


def test_raw_runs_are_the_same_when_they_are_read_back_to_six_digits(tmp_path):
    runs = [dataclasses.replace(run, p50=1 / 3, rate=100.0) for run in _runs()]
    tables.save(tmp_path / "deep" / "runs.csv", runs)
    assert tables.load(tmp_path / "deep" / "runs.csv") == [dataclasses.replace(run, p50=0.333333) for run in runs]


def test_every_row_of_a_table_has_as_many_cells_as_its_head():
    for table in (
        tables.latencies(_runs(), catalogue.PEERS, "none", rounds.LEVELS),
        tables.costs(_runs(), catalogue.PEERS, "none", rounds.LEVELS, {"muster": 10_000_000}),
        tables.ratios(_runs(), catalogue.PEERS, [controllers.TYPED], rounds.LEVELS),
    ):
        assert len({line.count("|") for line in table.splitlines()}) == 1
        assert len(table.splitlines()) == len(catalogue.PEERS) + 2


def test_a_row_says_what_its_peer_adds_and_the_first_what_all_are_compared_with():
    table = tables.latencies(_runs(), catalogue.PEERS[:2], "none", rounds.LEVELS)
    assert "| no webhook | (5 [4..10]) | (15 [12..30]) |" in table
    assert "| MutatingAdmissionPolicy | +2 [2..2] | +6 [6..6] |" in table


def test_no_peer_is_lost_in_any_round_and_each_follows_several_others():
    orders = [[peer.name for peer in rounds.rotated(catalogue.PEERS, number)] for number in range(7)]
    assert all(sorted(order) == sorted(peer.name for peer in catalogue.PEERS) for order in orders)
    assert len({order[0] for order in orders}) > 3
    for peer in catalogue.PEERS:
        places = [order.index(peer.name) for order in orders]
        assert max(places) - min(places) >= len(catalogue.PEERS) // 2
        assert len({order[place - 1] for order, place in zip(orders, places, strict=True) if place}) == 2


def test_the_text_between_the_comments_is_replaced_and_nothing_else():
    page = "# A\n\n<!-- x: begin -->\nold\n<!-- x: end -->\n\nz\n"
    assert pages.replaced(page, "x", "new\n") == "# A\n\n<!-- x: begin -->\n\nnew\n\n<!-- x: end -->\n\nz\n"
    assert pages.replaced(pages.replaced(page, "x", "b"), "x", "c") == pages.replaced(page, "x", "c")


@pytest.mark.parametrize("page", ["", "<!-- x: begin -->", "<!-- x: end --><!-- x: begin -->", "<!-- x: end -->"])
def test_a_page_without_the_comments_is_refused(page):
    with pytest.raises(ValueError, match="must have"):
        pages.replaced(page, "x", "new")


def test_the_page_of_the_documentation_can_be_written(tmp_path):
    page = tmp_path / "performance.md"
    page.write_text(reports.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    measured = reports.Measured(catalogue.PEERS, _runs(), {}, {"Muster": "0"})
    reports.write(measured, page, tmp_path / "plots")
    written = page.read_text(encoding="utf-8")
    assert "| Muster, both phases |" in written
    assert "![p50 added" in written
    for picture in (tmp_path / "plots").glob("*.svg"):
        assert picture.name in written
        ElementTree.parse(picture)  # noqa: S314  # ours


def test_only_all_peers_in_seven_rounds_are_good_for_the_documentation():
    few = reports.Measured(catalogue.PEERS, _runs(), {}, {})
    assert not few.complete(catalogue.PEERS)
    enough = [dataclasses.replace(run, round=number) for number in range(1, 8) for run in _runs() if run.round == 1]
    assert reports.Measured(catalogue.PEERS, enough, {}, {}).complete(catalogue.PEERS)
    assert not reports.Measured(catalogue.PEERS[:3], enough, {}, {}).complete(catalogue.PEERS)


def test_bars_are_as_long_as_their_medians_and_a_negative_one_has_no_length():
    rows = [("a & b", figures.Figure(1.0, 0.5, 2.0)), ("c", figures.Figure(-1.0, -2.0, 2.0))]
    root = ElementTree.fromstring(plots.bars("what < that", rows))  # noqa: S314  # ours
    widths = [float(each.get("width")) for each in root.iter("{http://www.w3.org/2000/svg}rect")]
    assert widths == [230.0, 0.0]
    assert all(math.isfinite(width) for width in widths)


def test_the_line_of_the_load_generator_is_read_in_milliseconds():
    load = loads.parse('{"latencies": [1000, 3000, 2000, 9000], "seconds": 2.0}')
    assert (load.rate, load.at(0.5), load.at(0.99)) == (2.0, 3.0, 9.0)


def test_a_load_without_an_answer_is_refused():
    with pytest.raises(ValueError, match="no answer"):
        loads.parse('{"latencies": [], "seconds": 2.0}')


def _changed(job):
    container = job["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    container["command"] = list(changes.COMMAND)
    container["env"] += changes.variables()
    return container


def test_a_job_that_nobody_changed_lacks_all_of_the_change():
    assert changes.missing(changes.job()) == list(changes.PARTS)


def test_a_job_with_the_whole_change_lacks_nothing_but_the_claim_that_it_did_not_ask_for():
    job = changes.job()
    _changed(job)
    assert changes.missing(job) == ["claim"]


def test_one_wrong_variable_is_seen():
    job = changes.job()
    _changed(job)["env"][-1]["value"] = "9"
    assert changes.missing(job) == ["variables", "claim"]


def test_a_wrong_name_of_the_first_pod_is_told_apart():
    job = changes.job()
    for each in _changed(job)["env"]:
        if each["name"] == "MASTER_ADDR":
            each["value"] = "constant"
    assert changes.missing(job) == ["names of the first pod", "claim"]


def test_the_policy_in_cel_writes_every_variable_of_the_change():
    text = policies.expression()
    assert all(f"'{each['name']}'" in text for each in changes.variables())


def test_an_unknown_peer_is_named():
    with pytest.raises(ClusterError, match="kivverno"):
        catalogue.chosen(["kivverno"])


def test_the_row_without_a_webhook_is_always_measured():
    assert [peer.name for peer in catalogue.chosen(["muster"])] == ["none", "muster"]


def test_an_aim_is_reached_by_the_median_and_not_by_the_best_round():
    runs = [
        _run(number, peer, workers, 4.0 + (peer == "muster-mutate"), cpu)
        for number, mine in ((1, 0.5), (2, 0.7), (3, 0.7))
        for workers in rounds.LEVELS
        for peer, cpu in (("none", 0.0), ("cr-patches", 1.0), ("muster-mutate", mine), ("muster", 2 * mine))
    ]
    lines = aims.table(runs).splitlines()
    assert lines[2].endswith("| at most 0.6 times | 0.7 [0.5..0.7] | no |")
    assert lines[3].endswith("| at most 1 times | 1.4 [1..1.4] | no |")
    assert lines[4].endswith("| at most 0 ms | 1 [1..1] | no |")


def test_an_aim_beside_a_peer_that_was_not_measured_has_no_row():
    assert aims.table([run for run in _runs() if run.peer in ("none", "muster")]) == ""


def test_an_aim_that_is_met_is_told_as_reached():
    assert all(line.endswith("| yes |") for line in aims.table(_runs(), aims.AIMS[2:4]).splitlines()[2:])

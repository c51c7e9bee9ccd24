"""The plot of a run: well-formed, bounded, and without a word of anybody else."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_telemetry import __main__ as command
from muster_telemetry import measures, plots
from tests.telemetry.rows import asynchronous, synchronous

SVG = "{http://www.w3.org/2000/svg}"
LIMIT = 64 * 1024


def texts(plot):
    return [each.text for each in ElementTree.fromstring(plot).iter(f"{SVG}text")]  # noqa: S314  # our own


def curves(plot):
    lines = ElementTree.fromstring(plot).iter(f"{SVG}polyline")  # noqa: S314  # our own
    return [[tuple(map(float, point.split(","))) for point in each.get("points").split()] for each in lines]


def test_each_measure_that_was_logged_has_a_panel_with_its_last_value():
    found = texts(plots.draw([synchronous(step) for step in range(1, 25)]))
    assert [each for each in found if each in {one.title for one in measures.MEASURES}] == [
        "Mean reward of a step",
        "Mean difference of log probabilities, trainer and sampler (nats)",
        "Mean importance ratio",
    ]
    assert "last 0.24" in found
    assert found[-2:] == ["step 1", "step 24"]
    assert "Versions by which samples are behind, mean" in texts(plots.draw([asynchronous(1), asynchronous(2)]))


def test_a_reward_that_rises_goes_up_and_to_the_right():
    (curve,) = curves(plots.draw([{"step": step, "reward": step / 10} for step in range(1, 11)]))
    assert curve == sorted(curve)
    assert [y for _, y in curve] == sorted((y for _, y in curve), reverse=True)


def test_what_differs_by_rounding_alone_is_a_flat_line_with_one_label():
    ratios = [1.0, 1.0000001, 0.9999999, 1.0]
    plot = plots.draw([{"step": step, "ratio": value} for step, value in enumerate(ratios)])
    (curve,) = curves(plot)
    assert len({y for _, y in curve}) == 1
    assert texts(plot).count("1") == 1
    (curve,) = curves(plots.draw([{"step": 1, "ratio": 0.9993}, {"step": 2, "ratio": 1.0004}]))
    assert len({y for _, y in curve}) == 2


def test_one_point_is_drawn_as_one():
    assert "<circle" in plots.draw([{"step": 3, "reward": 0.5}])


@pytest.mark.parametrize("rows", [[], [{"step": 1}], [{"reward": 1.0}], [{"step": 1, "reward": float("nan")}]])
def test_where_nothing_was_measured_there_is_no_plot(rows):
    assert plots.draw(rows) is None


def test_a_long_run_has_a_plot_of_bounded_size_that_keeps_its_one_peak():
    rows = [{**synchronous(step), **asynchronous(step), "batch/dropped_oversize_total": step} for step in range(30_000)]
    rows[12_345]["reward"] = 1e6
    plot = plots.draw(rows)
    assert len(plot) < LIMIT
    assert len(curves(plot)) == len(measures.MEASURES)
    assert "1e+06" in texts(plot)
    reward = curves(plot)[0]
    assert min(y for _, y in reward) < min(y for _, y in reward[:10]) - 50


KEYS = st.sampled_from([key for each in measures.MEASURES for key in each.logged])
VALUES = st.none() | st.booleans() | st.text() | st.integers() | st.floats() | st.lists(st.text())
ROWS = st.lists(st.dictionaries(KEYS | st.just("step") | st.text(), VALUES), max_size=20)


@given(ROWS)
def test_whatever_a_log_holds_the_plot_is_well_formed_and_has_no_text_of_it(rows):
    plot = plots.draw(rows)
    if plot is None:
        return
    titles = {each.title for each in measures.MEASURES}
    for text in texts(plot):
        assert text in titles or float(text.removeprefix("last ").removeprefix("step ")) is not None
    assert "nan" not in plot
    assert "inf" not in plot
    assert len(plot) < LIMIT


def test_a_plot_appears_whole_and_replaces_the_one_before(tmp_path):
    folder = tmp_path / "output"
    assert plots.write([], folder) is None
    for reward in (0.25, 0.75):
        assert plots.write([{"step": 1, "reward": reward}], folder) == folder / "muster-training.svg"
    assert "last 0.75" in (folder / "muster-training.svg").read_text()
    assert [each.name for each in folder.iterdir()] == ["muster-training.svg"]


def test_the_command_draws_what_a_checkpoint_kept(tmp_path, capsys):
    state = tmp_path / "trainer_state.json"
    state.write_text(json.dumps({"log_history": [synchronous(1), synchronous(2), None]}))
    assert command.main([str(state)]) == 0
    assert "last 0.02" in texts(capsys.readouterr().out)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"log_history": 3}', '{"log_history": []}', "[" * 100_000])
def test_the_command_says_what_a_file_is_not(tmp_path, capsys, text):
    state = tmp_path / "trainer_state.json"
    state.write_text(text)
    assert command.main([str(state)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert str(state) in err


@pytest.mark.parametrize("arguments", [[], ["--help"], ["a", "b"]])
def test_the_command_says_how_it_is_used(arguments, capsys):
    assert command.main(arguments) == 2
    assert "usage: python -m muster_telemetry" in capsys.readouterr().err

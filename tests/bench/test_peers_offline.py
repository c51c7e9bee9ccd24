from __future__ import annotations

import sys

import pytest

from bench.peers import machines, offline
from e2e.cluster.errors import ClusterError


def _tool(program, shows="", name="tool"):
    return offline.Tool(name, name.title(), None, lambda _, __, file: (sys.executable, "-c", program, file), {}, shows)


_READS = "import sys, yaml; jobs = list(yaml.safe_load_all(open(sys.argv[1])))\n"
_JUDGES = _READS + "sys.exit(any(job['spec']['trainer']['numNodes'] > 64 for job in jobs))"


def test_a_tool_that_refuses_what_it_should_is_used_and_one_that_lets_all_pass_is_not(tmp_path):
    judge, sleeper = _tool(_JUDGES), _tool("", name="sleeper")
    usable, failures = offline.usable(tmp_path, (judge, sleeper), 3)
    assert usable == [judge]
    assert list(failures) == ["Sleeper"]


def test_a_tool_that_does_not_show_its_change_is_not_used(tmp_path):
    changer = _tool("print('torchrun')", "torchrun")
    usable, failures = offline.usable(tmp_path, (changer, _tool("", "torchrun", "idle")), 3)
    assert usable == [changer]
    assert "does not do its work" in failures["Idle"]


def test_each_tool_is_called_with_one_document_and_with_many_in_each_round(tmp_path):
    tools = (_tool(_JUDGES), _tool(_JUDGES, name="other"))
    offline.usable(tmp_path, tools, 3)
    calls = list(offline.measured(tmp_path, tools, 2, 3))
    assert [(call.round, call.tool, call.documents) for call in calls] == [
        (1, "tool", 1),
        (1, "tool", 3),
        (1, "other", 1),
        (1, "other", 3),
        (2, "other", 1),
        (2, "other", 3),
        (2, "tool", 1),
        (2, "tool", 3),
    ]
    assert all(call.cpu > 0 and call.memory > 1 for call in calls)


def test_a_tool_that_fails_while_it_is_measured_is_named(tmp_path):
    broken = _tool("import sys; sys.exit(3)", name="broken")
    offline.usable(tmp_path, (broken,), 3)
    with pytest.raises(ClusterError, match=r"Broken.*ended with 3"):
        list(offline.measured(tmp_path, (broken,), 1, 3))


def test_documents_per_second_are_those_beyond_the_first():
    calls = [
        offline.Call("muster", number, count, seconds, 1.0, 50.0)
        for number in (1, 2)
        for count, seconds in ((1, 1.0), (1001, 3.0))
    ]
    table = offline.table(calls)
    assert "| 1 [1..1] | 3 [3..3] | 1 [1..1] | 500 [500..500] | 50 [50..50] |" in table
    assert len({line.count("|") for line in table.splitlines()}) == 1


def test_the_files_of_a_message_have_no_folders():
    assert machines.without_folders("`/a/b/kubectl get` failed:\n  see /x/y.log") == "`kubectl get` failed: see y.log"


def test_a_message_is_not_longer_than_a_table_bears():
    assert len(machines.without_folders("x" * 1000)) == 300


def test_the_memory_of_a_tool_is_its_own_and_not_that_of_the_bench(tmp_path):
    ballast = bytearray(b"x" * (200 << 20))
    small = offline.Tool("small", "small", None, lambda *_: ("true",))
    call = next(offline.measured(tmp_path, (small,), 1, 1))
    assert call.memory < len(ballast) / 2**20 / 4


@pytest.mark.parametrize(
    ("release", "told"),
    [("6.18.44", "6.18.44"), ("6.1.0-13-cloud-amd64", "6.1.0"), ("5.15.0+rc1", "5.15.0"), ("x", "x")],
)
def test_of_a_kernel_only_its_numbers_are_told(release, told):
    assert machines.numbers(release) == told


def test_the_plot_has_the_tools_that_were_measured(tmp_path):
    calls = [offline.Call("muster", 1, count, seconds, 1.0, 50.0) for count, seconds in ((1, 0.5), (1000, 2.5))]
    assert offline.plot(calls, tmp_path) == f"![Seconds for 1,000 TrainJobs]({tmp_path.name}/peers-offline.svg)"
    drawn = (tmp_path / "peers-offline.svg").read_text(encoding="utf-8")
    assert drawn.count("<rect") == 1
    assert "2.5" in drawn

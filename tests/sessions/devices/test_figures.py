"""What Prometheus reads of a device: seconds of its phases, grants, and those who wait."""

from __future__ import annotations

import http.client
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from muster.sessions.devices import agent
from muster.sessions.devices.figures import SERIES, Figures, exposition
from muster.sessions.devices.lease import Lease, Phase
from tests.sessions.devices.houses import ROOT, House, missing


def values(text):
    """Return the values of all series by name and labels but the device."""
    return {
        (
            each.name.removeprefix("muster_device_"),
            *(value for key, value in each.labels.items() if key != "device"),
        ): each.value
        for family in text_string_to_metric_families(text.decode())
        for each in family.samples
    }


@given(st.lists(st.tuples(st.sampled_from(Phase), st.integers(0, 3), st.integers(0, 1000)), max_size=20))
def test_each_second_is_of_one_phase_and_counts_for_each_that_waits(walk):
    figures, now = Figures(0.0), 0.0
    waited = 0
    for phase, waiting, seconds in walk:
        now += seconds
        waited += waiting * seconds
        figures.count(Lease(phase=phase, waiting=tuple(map(str, range(waiting)))), now)
    found = values(exposition({"d": (figures, Lease())}))
    assert sum(found["phase_seconds_total", phase] for phase in Phase) == now
    assert found["waiting_seconds_total",] == waited
    for phase in Phase:
        assert found["phase_seconds_total", phase] == sum(each[2] for each in walk if each[0] is phase)


def test_each_series_has_the_type_that_its_name_says_and_the_labels_that_are_told():
    devices = {name: (Figures(0.0), Lease()) for name in ('n"1\\/gpu-0', "n1/gpu-1")}
    families = list(text_string_to_metric_families(exposition(devices).decode()))
    assert {each.name + ("_total" if each.type == "counter" else ""): each.type for each in families} == {
        name: kind for name, (kind, _, _) in SERIES.items()
    }
    for family in families:
        name = family.samples[0].name
        assert all(tuple(each.labels) == SERIES[name][1] for each in family.samples)
        assert {each.labels["device"] for each in family.samples} == set(devices)


def test_each_series_has_a_row_on_the_page():
    page = (ROOT / "docs" / "sharing.md").read_text()
    for name in SERIES:
        assert f"| `{name}` |" in page


@pytest.mark.skipif(bool(missing()), reason=f"no budget of memory can be enforced here: {missing()}")
def test_an_agent_counts_what_its_engines_do(tmp_path):
    with House(tmp_path, "--leaving", "30", "--metrics", "127.0.0.1:0") as house:
        port = int(house.agent.next("serving metrics at port ").rpartition(" ")[2])
        one, other = house.engine("a"), house.engine("b")
        one.tell("hold")
        one.told("holds")
        other.tell("hold")
        one.told("away")
        other.told("holds")
        asking = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        asking.request("GET", "/metrics")
        answer = asking.getresponse()
        found = values(answer.read())
        assert answer.status == 200
        assert found["grants_total",] == house.status()["grants"] == 2
        assert found["ended_total",] == 0
        assert found["phase_seconds_total", "working"] > 0
        assert found["phase_seconds_total", "leaving"] + found["phase_seconds_total", "verifying"] > 0
        assert found["waiting_seconds_total",] > 0


@pytest.mark.skipif(bool(missing()), reason=f"no budget of memory can be enforced here: {missing()}")
def test_whoever_asks_for_something_else_or_sends_rubbish_gets_nothing_and_is_let_go(tmp_path):
    with House(tmp_path, "--metrics", "127.0.0.1:0") as house:
        port = int(house.agent.next("serving metrics at port ").rpartition(" ")[2])
        for sent in (b"GET / HTTP/1.1\r\n\r\n", b"POST /metrics HTTP/1.1\r\n\r\n", b"x" * 10_000, b"\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", port), timeout=60) as asking:
                asking.sendall(sent)
                asking.shutdown(socket.SHUT_WR)
                told = b"".join(iter(lambda s=asking: s.recv(4096), b""))
            assert told.startswith(b"HTTP/1.1 404") or told == b""
        assert house.status()["grants"] == 0


@pytest.mark.parametrize("address", ["9091", ":9091", "a:b", "a:70000", "127.0.0.1:"])
def test_an_address_that_is_none_is_told(address, capfd, monkeypatch, tmp_path):
    words = ["agent", "--device", "budget:a:8", "--socket", str(tmp_path / "a"), "--metrics", address]
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(SystemExit) as ended:
        agent.main()
    assert ended.value.code == 2
    assert "is not a HOST:PORT such as 127.0.0.1:9091" in " ".join(capfd.readouterr().err.split())

"""Links that are fetched again and again, and hosts and days that are none."""

from __future__ import annotations

import asyncio
import json
import threading

import httpx
import pytest

from muster.sessions.gateway import traces
from muster.sessions.journal.sqlite import SqliteJournal
from tests.sessions.gateways import Gateway

LIMITS = "[tenants.team-a]\nrequests_per_second = 0.01\nburst = 10\n"


class Limited(Gateway):
    """A Gateway whose tenant may ask ten times."""

    @property
    def ENGINES(self):  # noqa: N802  # of the class above
        (self.folder / "limits.toml").write_text(LIMITS)
        return (*Gateway.ENGINES, "--limits", str(self.folder / "limits.toml"))


def test_a_link_takes_the_rate_of_the_tenant_who_asked_for_it(tmp_path):
    with Limited(tmp_path) as made, httpx.Client(base_url=f"{made.url}/api/v1/", timeout=60) as http:
        key = {"X-API-Key": made.key}
        asked = {"tags": [], "user_metadata": None, "sdk_version": "0.38.0"}
        session = http.post("create_session", json=asked, headers=key).json()["session_id"]
        url = http.get(f"sessions/{session}/trace_export", headers=key).json()["url"]
        answers = [http.get(url) for _ in range(12)]
        assert [each.status_code for each in answers] == [200] * 8 + [429] * 4
        assert answers[0].json()["traceEvents"][0]["args"] == {"name": f"session {session}"}
        assert "requests_per_second" in answers[-1].json()["detail"]
        assert http.get(f"{url}x").status_code == 403


async def test_a_trace_is_made_beside_the_loop(tmp_path, monkeypatch):
    made, threads = SqliteJournal(tmp_path / "journal.sqlite"), []
    begun, goes_on, loop = asyncio.Event(), threading.Event(), asyncio.get_running_loop()
    await made.open()
    of = traces._made

    def slow(*args):
        threads.append(threading.current_thread())
        loop.call_soon_threadsafe(begun.set)
        assert goes_on.wait(60)
        return of(*args)

    monkeypatch.setattr(traces, "_made", slow)
    task = asyncio.create_task(traces.trace(made, "s"))
    await begun.wait()
    goes_on.set()
    assert json.loads(await task)["traceEvents"][0]["name"] == "process_name"
    assert threads[0] is not threading.main_thread()
    await made.close()


@pytest.mark.parametrize("host", ["a:99999", "evil.example/a?b#c", "me@evil.example", "[", "a:b"])
def test_a_link_for_a_host_that_is_none_is_refused_in_a_sentence(shared, hand, host):
    session = hand(shared).session
    headers = {"X-API-Key": shared.key, "Host": host}
    answer = httpx.get(f"{shared.url}/api/v1/sessions/{session}/trace_export", headers=headers, timeout=60)
    assert (answer.status_code, answer.json()["detail"][:5]) == (400, "Host:")
    assert "Traceback" not in (shared.folder / "gateway-one.log").read_text()


@pytest.mark.parametrize("day", ["9999-12-31", "0001-01-01"])
def test_the_first_and_the_last_day_have_no_events(shared, day):
    answer = httpx.get(f"{shared.url}/api/v1/audit?day={day}", headers={"X-API-Key": shared.key}, timeout=60)
    assert (answer.status_code, answer.json()) == (200, {"entries": []})

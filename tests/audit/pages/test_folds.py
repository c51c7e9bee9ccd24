"""One row for each job: the phases of its TrainJob and of its JobSet, with links to every decision."""

from __future__ import annotations

import re

import pytest

from muster.audit import chain

JOBS = ["a", "b"]


def subject(name, kind="TrainJob", namespace="team-a"):
    return {"kind": kind, "namespace": namespace, "name": name}


@pytest.fixture
def written(log, make_record):
    def write(*differences):
        link = chain.Chain()
        log.write_bytes(b"".join(link.seal(make_record(**each)) for each in differences))
        return log

    return write


def rows(page):
    body = page.partition('class="decisions"')[2].partition("<tbody>")[2]
    return body.split("<tr>")[1:]


async def test_the_phases_of_a_job_and_of_its_jobset_are_one_row(site, written):
    owner = {"kind": "TrainJob", "name": "a", "uid": "u"}
    log = written(
        {"object": subject("a"), "decision": "patched"},
        {"object": subject("b")},
        {"object": subject("a"), "decision": "allowed", "phase": "validate"},
        {"object": subject("a", "JobSet"), "owner": owner, "decision": "denied", "phase": "validate"},
        {"object": subject("a", namespace="team-b"), "operation": "UPDATE"},
    )
    page = await (await site(log)).get()
    first, second, third = rows(page)
    assert "TrainJob update, mutate" in first
    assert re.findall(r">([^<]*)</a><span>: (\w+)</span>", second) == [
        ("JobSet create, validate", "denied"),
        ("TrainJob create, validate", "allowed"),
        ("TrainJob create, mutate", "patched"),
    ]
    assert 'class="badge denied"' in second
    assert "TrainJob create, mutate" in third
    assert "3 jobs, 5 decisions" in page


async def test_a_job_with_many_decisions_has_a_short_row_and_a_list_of_all(site, written):
    client = await site(written(*({"operation": "UPDATE"} for _ in range(30))))
    (row,) = rows(await client.get())
    assert (row.count("/record/"), "and 22 more" in row) == (8, True)
    link = re.search(r'href="(/\?[^"]*)" title="Every decision', row)[1].replace("&amp;", "&")
    status, _, page = await client.ask(link)
    assert (status, len(rows(page))) == (200, 30)


async def test_pages_of_jobs_lead_to_every_job_once(site, written):
    client = await site(written(*({"object": subject(f"job-{each}")} for each in range(120) for _ in range(2))))
    path, seen = "/", []
    while path:
        _, _, page = await client.ask(path)
        seen += re.findall(r"Every decision about this job\">([^<]*)<", page)
        older = re.search(r'href="([^"]*)" rel="next"', page)
        path = older and older[1].replace("&amp;", "&")
    assert seen == [f"job-{each}" for each in reversed(range(120))]


async def test_rule_and_user_lead_to_the_list_with_only_them(site, written, make_change):
    client = await site(written({"changes": [make_change()]}, {"object": subject("b"), "user": {"username": "b*"}}))
    page = await client.get()
    assert 'href="/?rule=trl%2Flaunch" class="rule"' in page
    assert 'href="/?user=b%5B%2A%5D"' in page
    page = await client.get(rule="trl/launch")
    assert len(rows(page)) == 1

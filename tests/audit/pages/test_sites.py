"""The pages as a browser gets them: what they say, and what they refuse."""

from __future__ import annotations

import datetime
import html
import re
import urllib.parse
from html.parser import HTMLParser
from pathlib import Path

import pytest

from muster.audit import chain
from muster.webhook import catalogue
from muster.webhook.pages import filters

NOW = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>\u202e&amp;"


async def test_the_list_says_what_was_changed_by_which_rule_and_why(site, real_log, plain):
    client = await site(real_log)
    text = plain(await client.get())
    assert "20 decisions, newest first; the logs have nothing older." in text
    assert "spec.trainer.command trl/launch trl starts accelerate, which ignores the nodes and processes" in text
    assert "spec.trainer.args[4] trl/vllm-server server mode needs a vLLM server" in text


async def test_a_record_shows_both_sides_of_each_change_with_its_rule_and_reason(site, real_log, plain):
    client = await site(real_log)
    (path,) = await client.records(rule="trl/launch", job="trl-sft-two-nodes")
    page = await client.get(path)
    text = plain(page)
    assert text.index("spec.trainer.command") < text.index("metadata.annotations")
    assert "trl starts accelerate, which ignores the nodes and processes in Trainer's PET_* env" in text
    assert '<del class="line">- sft</del>' in page
    assert '<ins class="line">- torchrun</ins>' in page
    assert "Before After not set muster.dev/applied" in text
    assert "record 17: as it was written; follows record 16, record 18 follows it" in text
    assert "Asked by grace (system:authenticated)" in text
    assert "Decided in 0.41 ms" in text
    assert "What it means" in text
    assert catalogue.find("trl/launch")[0].title in text


async def test_a_denied_job_shows_each_finding_with_its_value(site, real_log, plain):
    client = await site(real_log)
    (path,) = await client.records(decision="denied", job="wrong-numbers")
    text = plain(await client.get(path))
    assert "denied TrainJob team-a/wrong-numbers" in text
    assert text.count("error :") == 3


async def test_findings_say_their_severity_and_errors_stand_before_warnings_before_notes(
    site, log, make_record, make_finding, plain
):
    found = [{**make_finding(f"spec.{word}", 1), "severity": word} for word in ("note", "warning", "error")]
    log.write_bytes(chain.Chain().seal(make_record(phase="validate", decision="denied", findings=found)))
    client = await site(log)
    (path,) = await client.records()
    text = plain(await client.get(path))
    assert text.index("error :") < text.index("warning :") < text.index("note :")
    listed = await client.get()
    assert '<code title="spec.note">' not in listed
    assert 'class="rule error"' in listed


async def test_a_note_looks_unlike_a_warning(site, log, make_record, make_finding):
    note = {**make_finding("spec.x", 1), "severity": "note"}
    log.write_bytes(chain.Chain().seal(make_record(phase="validate", decision="allowed", findings=[note])))
    assert 'class="rule note"' in await (await site(log)).get()


async def test_a_trainjob_and_its_jobsets_lead_to_each_other(site, real_log):
    client = await site(real_log)
    trainjob = await client.records(kind="TrainJob", job="trl-sft-two-nodes")
    jobsets = await client.records(kind="JobSet", job="trl-sft-two-nodes")
    assert jobsets in await lead_to(client, trainjob[0])
    assert trainjob in await lead_to(client, jobsets[0])


async def lead_to(client, path):
    """The records of each list that a page links to."""
    page = html.unescape(await client.get(path))
    queries = [dict(urllib.parse.parse_qsl(each)) for each in re.findall(r'href="/\?([^"]*)"', page)]
    return [await client.records(**query) for query in queries]


ELEMENTS = {
    "a", "article", "body", "button", "caption", "code", "datalist", "dd", "del", "details", "div", "dl", "dt", "em",
    "figcaption", "figure", "form", "g", "h1", "h2", "h3", "head", "header", "html", "input", "ins", "label", "li",
    "link", "main", "meta", "nav", "ol", "option", "p", "pre", "rect", "section", "select", "span", "strong", "summary",
    "svg", "table", "tbody", "td", "text", "th", "thead", "time", "title", "tr", "ul",
}  # fmt: skip
VOID = {"input", "link", "meta"}
STYLE = Path(filters.__file__).with_name("style.css")


class Shape(HTMLParser):
    """How a page is built: classes, what is wrong with its elements, and the width of each row of a table."""

    def __init__(self, page):
        super().__init__()
        self.classes, self.wrong, self.widths, self._open = set(), [], [], []
        self.feed(page)
        self.wrong += self._open

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.classes |= set((attributes.get("class") or "").split())
        self.wrong += [] if tag in ELEMENTS else [tag]
        self._open += [] if tag in VOID else [tag]
        if tag == "tr":
            self.widths.append(0)
        elif tag in ("td", "th"):
            self.widths[-1] += int(attributes.get("colspan", 1))

    def handle_endtag(self, tag):
        if not self._open or self._open.pop() != tag:
            self.wrong.append(f"/{tag}")


async def test_every_page_is_well_formed_html_whose_classes_have_a_style(site, real_log):
    with real_log.open("ab") as stream:
        stream.write(b"no record\n")
    real_log.write_bytes(real_log.read_bytes().replace(b'"grace"', b'"mallory"', 1))
    client = await site(real_log)
    known = set(re.findall(r"\.([a-z-]+)", STYLE.read_text())) | set(filters.DECISIONS) | {"empty"}
    paths = [
        "/",
        "/?user=nobody",
        "/?decision=unreadable",
        "/nowhere",
        "/?view=decisions",
        *await client.records(),
        *await client.records(decision="unreadable"),
    ]
    for path in paths:
        shape = Shape((await client.ask(path))[2])
        assert shape.wrong == [], path
        assert shape.classes <= known, path
    assert set(Shape(await client.get(view="decisions")).widths) == {5}


async def test_the_list_says_what_its_columns_are(site, real_log):
    heads = re.findall(r'<th scope="col">([^<]*)</th>', await (await site(real_log)).get())
    assert heads[-5:] == ["Time (UTC)", "Decision", "Job", "What was changed or found, and why", "Asked by"]


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ({}, 20),
        ({"namespace": "team-a"}, 20),
        ({"namespace": "team-b"}, 0),
        ({"job": "trl-*"}, 10),
        ({"kind": "JobSet"}, 8),
        ({"decision": "denied"}, 2),
        ({"framework": "torchtune"}, 4),
        ({"rule": "trl/launch"}, 2),
        ({"user": "ada", "decision": "denied"}, 2),
        ({"since": "2026-03-01T08:32:00Z"}, 2),
        ({"since": "3h30m"}, None),
        ({"until": "2026-03-01T08:30:10Z"}, 2),
        ({"text": "WHICH IGNORES THE NODES"}, 1),
        ({"uid": "5-jobset"}, 2),
        ({"job": ""}, 20),
    ],
)
async def test_filters_choose_what_is_listed(site, real_log, query, count):
    client = await site(real_log)
    if count is None:
        status, _, text = await client.ask(params=query)
        assert status == 400
        assert "since: &#x27;3h30m&#x27; is not a time; write one like" in text
    else:
        assert len(await client.records(**query)) == count


async def test_pages_lead_through_a_long_log_and_keep_the_filters(site, log, make_record):
    link = chain.Chain()
    log.write_bytes(
        b"".join(
            link.seal(
                make_record(
                    object={"kind": "TrainJob", "namespace": "a", "name": f"job-{each}"},
                    decision=("denied", "patched")[each % 2],
                )
            )
            for each in range(220)
        )
    )
    client = await site(log)
    path, seen = "/?decision=denied", []
    while path:
        page = await client.get(path)
        seen += re.findall(r'href="(/record/[^"]*)"', page)
        older = re.search(r'href="([^"]*)" rel="next"', page)
        path = older and older[1].replace("&amp;", "&")
    assert len(seen) == len(set(seen)) == 110


async def test_the_json_of_a_record_is_its_line(site, real_log, trail):
    client = await site(real_log)
    path = (await client.records())[0].replace("record", "json")
    status, headers, text = await client.ask(path)
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert text == trail[-1].decode().rstrip("\n")


async def test_an_edited_record_is_marked_in_the_list_and_on_its_page(site, real_log):
    real_log.write_bytes(real_log.read_bytes().replace(b'"grace"', b'"mallory"', 1))
    client = await site(real_log)
    page = await client.get(user="mallory")
    assert page.count("badge broken") == 1
    assert re.search(r'class="badge broken"[^>]*>edited<', page)
    assert "badge broken" not in await client.get(user="ada")
    (path,) = await client.records(user="mallory")
    page = await client.get(path)
    assert 'role="alert">this record does not match its hash: it was edited' in page


async def test_lines_without_a_record_have_a_page_too(site, real_log, plain):
    with real_log.open("ab") as stream:
        stream.write(b"<script>Traceback\n")
    client = await site(real_log)
    (path,) = await client.records(decision="unreadable")
    page = await client.get(path)
    assert "<script>" not in page
    assert "This line is not an audit record: it is not JSON. <script>Traceback" in plain(page)


def spoilt(value):
    """The record with a hostile text wherever one may stand."""
    if isinstance(value, dict):
        return {key: spoilt(item) for key, item in value.items()}
    return [spoilt(item) for item in value] if isinstance(value, list) else HOSTILE if isinstance(value, str) else value


class Tags(HTMLParser):
    """The elements and attributes of a page, as a browser reads it."""

    def __init__(self, page):
        super().__init__()
        self.names, self.attributes = set(), set()
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}


async def test_nothing_that_a_record_says_becomes_part_of_the_page(site, log, make_record, make_change, make_finding):
    change = make_change(before={HOSTILE: HOSTILE}, after=[HOSTILE], field=HOSTILE)
    record = make_record(changes=[change], findings=[make_finding(HOSTILE, HOSTILE, HOSTILE)])
    owner = {"kind": "TrainJob", "name": "o", "uid": "p"}
    strange = spoilt(record | {"owner": owner, "message": "m", "user": {"username": "u", "groups": ["g"]}})
    kept = {key: record[key] for key in ("schema", "time", "operation", "phase", "mode", "decision")}
    kept["runtime"] = {**strange["runtime"], "source": "live"}
    plainly = chain.Chain().seal(record | {"owner": owner, "message": "m"})
    log.write_bytes(plainly + chain.Chain().seal(strange | kept))
    client = await site(log)
    path, harmless_path = await client.records()
    harmless = Tags(await client.get(uid="none") + await client.get() + await client.get(harmless_path))
    assert {"script", "img", "style", "iframe", "base"}.isdisjoint(harmless.names)
    assert "onerror" not in harmless.attributes
    for page in (await client.get(), await client.get(path), await client.get(text=HOSTILE)):
        tags = Tags(page)
        assert tags.names <= harmless.names
        assert tags.attributes <= harmless.attributes
        assert "\u202e" not in page
        assert "\\u202e" in page
        assert all(href.startswith(("/", "#")) for href in re.findall(r'(?:href|src|action)="([^"]*)"', page))


async def test_every_answer_forbids_scripts_framing_caching_and_guessing(site, real_log):
    client = await site(real_log)
    for path in ("/", "/style.css", "/icon.svg", "/nothing", "/?since=x"):
        _, headers, _ = await client.ask(path)
        assert headers["Content-Security-Policy"].startswith("default-src 'self'; script-src 'none'")
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "Access-Control-Allow-Origin" not in headers


async def test_pages_are_only_read(site, real_log):
    client = await site(real_log)
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        status, headers, _ = await client.ask(method=method)
        assert (status, headers["Allow"]) == (405, "GET, HEAD")
    status, headers, text = await client.ask(method="HEAD")
    assert (status, text) == (200, "")
    assert int(headers["Content-Length"]) > 1000


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8099", 200),
        ("localhost", 200),
        ("LOCALHOST:1", 200),
        ("[::1]:8099", 200),
        ("10.0.0.7", 200),
        ("evil.example", 421),
        ("localhost.evil.example:8099", 421),
        ("127.0.0.1.evil.example", 421),
        ("evil.example:8099@127.0.0.1", 421),
        ("", 421),
    ],
)
async def test_a_name_of_the_web_that_points_here_is_refused(site, real_log, host, status):
    client = await site(real_log)
    assert (await client.ask(headers={"Host": host}))[0] == status


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/record/x", 404, "is not a place in a log"),
        ("/record/0.0123456789abcdef.0", 404, "deleted by rotation"),
        ("/record/9.0123456789abcdef.0", 404, "deleted by rotation"),
        ("/json/../../../etc/passwd", 404, "neither"),
        ("/record/", 404, "is not a place"),
        ("/wp-admin", 404, "neither"),
        ("/?namspace=x", 400, "is not a filter; the filters are job, namespace"),
        ("/?job=a&job=b", 400, "is given twice"),
        ("/?decision=maybe", 400, "is not one of patched"),
        ("/?kind=Pod", 400, "is not one of TrainJob"),
        ("/?since=0001-01-01T00:05:00%2B14:00", 400, "is not a time"),
        ("/?since=0001-01-01T00:05:00Z", 400, "is not a time"),
        ("/?since=9999-12-31T23:59:59-14:00", 400, "is not a time"),
        (f"/?text={'x' * 301}", 400, "has 301 characters"),
        ("/?before=x", 400, "begin at the newest record"),
    ],
)
async def test_what_is_not_there_or_cannot_be_asked_is_said(site, real_log, path, status, said):
    client = await site(real_log)
    got, headers, text = await client.ask(path)
    assert (got, headers["Content-Type"]) == (status, "text/html; charset=utf-8")
    assert said in text
    assert 'href="/"' in text


async def test_urls_and_bodies_are_bounded(site, real_log):
    client = await site(real_log)
    assert (await client.ask(f"/?text={'x' * 20_000}"))[0] == 400
    assert (await client.ask(data=b"x" * 1000))[0] == 413


async def test_a_log_that_is_gone_is_named_and_the_site_goes_on(site, real_log, tmp_path):
    client = await site(real_log)
    real_log.unlink()
    assert "the logs are empty" in await client.get()
    real_log.mkdir()
    status, _, text = await client.ask()
    assert status == 500
    assert f"{real_log} cannot be read" in text


async def test_a_record_that_is_written_meanwhile_is_on_the_next_page(site, log, sealed):
    first, second = sealed(2)
    log.write_bytes(first)
    client = await site(log)
    assert len(await client.records()) == 1
    log.write_bytes(first + second)
    assert len(await client.records()) == 2


def test_every_filter_of_the_form_is_a_question():
    typed = {"decision": "denied", "kind": "JobSet", "since": "1h", "until": "1m"}
    pairs = [(name, typed.get(name, "x")) for name in filters.FILTERS]
    assert None not in [getattr(filters.Filters.from_pairs(pairs, NOW).questions, name) for name in filters.FILTERS]


def test_a_name_with_wildcards_is_looked_for_as_it_is_written(make_record):
    record = make_record(object={"kind": "TrainJob", "namespace": "a", "name": "x*[1]?"})
    other = make_record(object={"kind": "TrainJob", "namespace": "a", "name": "xy1z"})
    questions = filters.Filters.from_pairs([("job", filters.literal("x*[1]?"))], NOW).questions
    assert (questions.answered_by(record), questions.answered_by(other)) == (True, False)

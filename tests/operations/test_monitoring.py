"""The alert rules and the dashboard name series that exist, and every alert says what to do."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
import yaml

from tests.operations import pages, promtools, series

FOLDER = pages.ROOT / "manifests" / "monitoring"
RULES = [rule for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"] for rule in group["rules"]]
DASHBOARDS = {path.name: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
PANELS = [panel for each in DASHBOARDS.values() for panel in each["panels"] if panel["type"] != "row"]
OTHERS = {
    "kube_deployment_status_replicas_available",  # kube-state-metrics
    "apiserver_admission_webhook_rejection_count",  # Kubernetes 1.36, apiserver/pkg/admission/metrics
    "apiserver_admission_webhook_fail_open_count",
    "apiserver_admission_webhook_admission_duration_seconds",
}
SHOWN = {"dashboard.json": series.exposed(), "sessions.json": series.of_sessions() | series.of_devices()}
EXPOSED = {name: labels for each in SHOWN.values() for name, labels in each.items()}
SCRAPED = {"job", "instance"}  # labels that Prometheus itself gives

each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
each_dashboard = pytest.mark.parametrize("name", list(DASHBOARDS))
each_panel = pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])


def named(expression):
    """The series that an expression names, without the suffix of a histogram's buckets."""
    without_strings = re.sub(r'"[^"]*"', '""', expression)
    without_labels = re.sub(r"\{[^}]*\}|\b(by|without|on|ignoring) *\([^)]*\)", "", without_strings)
    found = re.findall(r"\b[a-z]\w*_\w+\b(?! *\()", without_labels)
    return {base(name) for name in found}


def base(name):
    """The name of a histogram whose buckets or count are named; that of others ends with count for other reasons."""
    return re.sub("_(bucket|count)$" if name.startswith("muster_") else "_bucket$", "", name)


def selectors(expression):
    """The labels that an expression selects by, as (series, label)."""
    for name, labels in re.findall(r"\b(\w+)\{([^}]*)\}", expression):
        yield from ((base(name), each) for each in re.findall(r"(\w+) *(?:=~|!~|!=|=)", labels))


def grouped(expression):
    return {label for each in re.findall(r"\bby *\(([^)]*)\)", expression) for label in re.findall(r"\w+", each)}


@each_rule
def test_a_rule_looks_at_series_and_labels_that_exist(rule):
    names = named(rule["expr"])
    assert names
    assert names <= EXPOSED.keys() | OTHERS
    for name, label in selectors(rule["expr"]):
        assert name in OTHERS or label in EXPOSED[name]
    if not names & OTHERS:
        assert grouped(rule["expr"]) <= {"le", *SCRAPED}.union(*(EXPOSED[name] for name in names))


@each_rule
def test_a_rule_says_how_urgent_it_is_what_happened_and_what_to_do(rule):
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert {"summary", "description", "runbook_url"} == rule["annotations"].keys()
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    assert anchor == rule["alert"].lower()
    assert anchor in pages.anchors(page)
    assert pages.section(page, rule["alert"]).strip()
    named_in_texts = re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values()))
    assert set(named_in_texts) <= grouped(rule["expr"])


def test_every_section_of_the_runbook_is_about_a_rule():
    headings = re.findall(r"^### (Muster\w+)$", pages.read("docs/operate.md"), re.MULTILINE)
    assert headings == [rule["alert"] for rule in RULES]


@each_panel
def test_a_panel_shows_series_that_exist_from_the_source_that_was_chosen(panel):
    assert panel["datasource"]["uid"] == "${datasource}"
    assert panel["description"]
    for target in panel["targets"]:
        assert target["datasource"]["uid"] == "${datasource}"
        names = named(target["expr"])
        assert names
        assert names <= EXPOSED.keys() | OTHERS
        for name, label in selectors(target["expr"]):
            assert name in OTHERS or label in EXPOSED[name]


@each_dashboard
def test_the_dashboard_shows_every_series_and_names_no_source_of_its_own(name):
    panels = [panel for panel in DASHBOARDS[name]["panels"] if panel["type"] != "row"]
    shown = {each for panel in panels for target in panel["targets"] for each in named(target["expr"])}
    assert SHOWN[name].keys() <= shown
    (variable,) = DASHBOARDS[name]["templating"]["list"]
    assert (variable["name"], variable["type"], variable["query"]) == ("datasource", "datasource", "prometheus")


@each_dashboard
def test_panels_have_numbers_of_their_own_and_do_not_overlap(name):
    numbers = [panel["id"] for panel in DASHBOARDS[name]["panels"]]
    assert len(numbers) == len(set(numbers))
    taken = set()
    for panel in DASHBOARDS[name]["panels"]:
        box = panel["gridPos"]
        cells = {(x, y) for x in range(box["x"], box["x"] + box["w"]) for y in range(box["y"], box["y"] + box["h"])}
        assert box["x"] + box["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.parametrize("panel_alert", re.findall(r"\bMuster[A-Z]\w+", json.dumps(PANELS)))
def test_alerts_that_the_dashboard_names_exist(panel_alert):
    assert panel_alert in {rule["alert"] for rule in RULES}


def asked(tool, *arguments, folder=FOLDER):
    """The exit code of promtool, and all that it said."""
    ended = subprocess.run([tool, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout + ended.stderr


def test_promtool_finds_the_rules_right_and_each_fires_when_it_should():
    tool = promtools.found() or pytest.skip(promtools.MISSING)
    for arguments in (["check", "rules", "alerts.yaml"], ["test", "rules", "alerts-test.yaml"]):
        code, said = asked(tool, *arguments)
        assert code == 0, said


@each_rule
def test_promtool_is_given_a_case_in_which_the_rule_fires(rule):
    tests = yaml.safe_load((FOLDER / "alerts-test.yaml").read_text())["tests"]
    fired = {
        case["alertname"] for test in tests for case in test.get("alert_rule_test", ()) if case["exp_alerts"]
    } | set(re.findall(r'alertname="(\w+)"', json.dumps(tests).replace('\\"', '"')))
    assert rule["alert"] in fired


def test_promtool_would_notice_a_rule_that_never_fires(tmp_path):
    tool = promtools.found() or pytest.skip(promtools.MISSING)
    rules = (FOLDER / "alerts.yaml").read_text()
    assert "absent(muster_admission_in_flight)\n" in rules
    broken = rules.replace("absent(muster_admission_in_flight)\n", "absent(muster_admission_in_flight) > 1\n")
    (tmp_path / "alerts.yaml").write_text(broken)
    (tmp_path / "test.yaml").write_text((FOLDER / "alerts-test.yaml").read_text())
    code, said = asked(tool, "test", "rules", "test.yaml", folder=tmp_path)
    assert code == 1
    assert "MusterDown" in said

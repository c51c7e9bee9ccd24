"""`muster doctor` as people and programs call it: lines, JSON, exit codes."""

from __future__ import annotations

import json

import pytest

from muster.webhook.cli.commands import doctor as doctors
from muster.webhook.doctor import examination
from muster.webhook.doctor.diagnoses import Severity
from tests.doctor import worlds
from tests.doctor.conftest import written


def test_a_good_installation_ends_with_0_and_a_count(doctor):
    code, out, err = doctor()
    assert code == 0
    assert err == f"muster: muster-system/muster: 0 error, 0 unknown, 0 warning, {len(out.splitlines())} ok\n"


def test_findings_are_lines_worst_first(world, doctor):
    world.objects[worlds.DEPLOYMENT] = worlds.deployment("muster", "muster-webhook:1", 1)
    world.revoked = {"list nodes"}
    world.forbidden = {"get pods/proxy"}
    code, out, _ = doctor()
    severities = [line[:8].strip() for line in out.splitlines()]
    assert code == 1
    assert severities[:3] == ["error", "unknown", "warning"]
    assert severities == sorted(severities, key=[each.value for each in Severity].index)


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda w: w.objects[worlds.BUDGETS].update(items=[]), 0),
        (lambda w: w.forbidden.add("get pods/proxy"), 2),
        (lambda w: w.revoked.add("list nodes"), 1),
        (lambda w: (w.revoked.add("list nodes"), w.forbidden.add("get pods/proxy")), 1),
    ],
    ids=["warning", "unknown", "error", "error and unknown"],
)
def test_the_exit_code_is_that_of_the_worst(world, doctor, spoil, code):
    spoil(world)
    assert doctor()[0] == code


def test_json_has_the_members_that_are_documented(world, doctor):
    world.revoked = {"list nodes"}
    code, out, _ = doctor("-o", "json")
    report = json.loads(out)
    assert code == 1
    assert list(report) == ["schema", "namespace", "name", "verdict", "findings"]
    assert (report["schema"], report["verdict"]) == (doctors.SCHEMA, "error")
    assert {tuple(each) for each in report["findings"]} == {("check", "severity", "what", "todo", "figures")}
    assert {each["check"] for each in report["findings"]} <= {
        "api-server",
        *(check.name for check in examination.CHECKS),
    }
    (figures,) = [each["figures"] for each in report["findings"] if each["figures"]]
    assert list(figures) == ["minimumSeconds", "medianSeconds", "calls"]
    assert [each["todo"] is None for each in report["findings"]] == [
        each["severity"] == "ok" for each in report["findings"]
    ]


def test_what_a_cluster_says_cannot_move_the_cursor(world, doctor):
    world.judge = lambda _job: (_ for _ in ()).throw(worlds.RefusedError(403, "no\x1b[2J\nok"))
    _, out, _ = doctor()
    assert "\x1b" not in out
    assert "no\\x1b[2J ok" in out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--namespace", "a/b"), "--namespace: 'a/b' is not a valid name"),
        (("--name", "../x"), "--name: '../x' is not a valid name"),
        (("--probe-namespace", ""), "--probe-namespace: '' is not a valid name"),
        (("--dial", "8443"), "--dial: '8443' is not an address"),
        (("--dial", "host:99999"), "--dial: 'host:99999' is not an address"),
        (("--timeout", "nan"), "'nan' is not a number of seconds"),
        (("--timeout", "soon"), "'soon' is not a number of seconds"),
        (("--context", "other"), "cannot be used"),
    ],
)
def test_a_wrong_option_ends_with_2_and_one_line(doctor, options, said):
    code, out, err = doctor(*options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("muster: ")
    assert said in err


def test_an_api_server_that_is_not_there_ends_with_2_and_one_line(kubeconfig, doctor):
    written(kubeconfig, "http://127.0.0.1:1")
    code, out, err = doctor()
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("muster: the API server cannot be read: no answer from http://127.0.0.1:1")


def test_credentials_that_are_refused_end_with_2_and_one_line(world, doctor):
    world.texts["/version"] = (401, "Unauthorized")
    code, out, err = doctor()
    assert (code, out, err) == (2, "", "muster: the API server cannot be read: HTTP 401: Unauthorized\n")


def test_a_context_of_the_kubeconfig_is_used(kubeconfig, doctor):
    config = json.loads(kubeconfig.read_text())
    config["current-context"] = "gone"
    kubeconfig.write_text(json.dumps(config))
    assert doctor("--context", "x")[0] == 0
    assert doctor()[0] == 2

"""`muster status`, against a cluster in memory that holds what was read from a real one."""

from __future__ import annotations

import copy
import json
import sys

import pytest

from muster.kube import clients, transports
from muster.webhook.cli.commands import status
from tests.cli.status import recordings
from tests.cli.status.recordings import event
from tests.controllers.apiservers import ApiServer, RefusedError
from tests.controllers.documents import namespace
from tests.support import trails


class Cluster(ApiServer):
    """An API server, with what a test needs to fill it."""

    def take(self, name):
        """Put the objects of a recorded job."""
        found = recordings.documents(name)
        for each in filter(None, (found["trainjob"], found["jobset"], *found["pods"], *found["events"])):
            self.put(each)

    def say(self, *args, **more):
        self.put({"apiVersion": "v1", "kind": "Event", **event(*args, **more)})

    def forbid(self, *plurals):
        def fault(_method, plural):
            if plural in plurals:
                raise RefusedError(403, f"{plural} is forbidden")

        self.faults = fault


@pytest.fixture
def cluster(monkeypatch):
    made = Cluster()
    made.put(namespace("recorded"))

    async def connect(_kubeconfig=None, _context=None):
        return made.connection()

    monkeypatch.setattr(clients, "connect", connect)
    monkeypatch.setattr(clients, "namespace_of", lambda *_: "recorded")
    return made


@pytest.fixture
def show(cluster, muster):
    return lambda *args: muster("status", *args)


def test_the_jobs_of_the_contexts_namespace_are_one_table(cluster, show):
    cluster.take("running")
    cluster.take("finishes")
    code, out, err = show()
    assert (code, err) == (0, "")
    header, *rows = [line.split(maxsplit=5) for line in out.splitlines()]
    assert header == ["NAME", "KIND", "PHASE", "WORLD", "AGE", "WHY"]
    assert [row[:4] for row in rows] == [
        ["finishes", "TrainJob", "Finished", "1/1"],
        ["running", "TrainJob", "Running", "?/?"],
    ]
    assert rows[0][5] == "finished with 1 rank, as was asked for"


def test_one_job_is_told_in_full(cluster, show):
    cluster.take("smaller")
    code, out, _ = show("smaller")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("TrainJob recorded/smaller: Waiting, ")
    assert "the guard ended it: the training had 1 rank, and 2 were asked for" in lines[1]
    assert any(line.startswith("WORLD 2 asked for; 1 reported by pod smaller-node-0-0-") for line in lines)
    assert any("Error (78)" in line for line in lines)
    assert any("Muster changed the TrainJob when it was created" in line for line in lines)


def test_json_has_a_version_and_the_same_members_for_one_job_and_for_all(cluster, show):
    cluster.take("finishes")
    one, (first,) = show("finishes", "-o", "json").json(), show("-o", "json").json()
    ages = one.pop("ageSeconds"), first.pop("ageSeconds")
    assert one == first
    assert all(isinstance(age, int) for age in ages)
    assert set(one) == {
        "schema", "namespace", "name", "kind", "phase", "why", "world", "verdict", "measured", "problem", "sampling",
        "conditions", "pods",
        "seats", "decisions", "unread", "gateway", "progress",
    }  # fmt: skip
    assert one["schema"] == "muster.dev/status/v1"
    assert one["world"] | {"pod": ""} == {
        "asked": "1", "reached": 1, "right": True, "source": "pod", "pod": "", "steps": 8, "seconds": 14.2,
        "predicted": "open",
    }  # fmt: skip
    assert one["why"]["code"] == "finished"


def test_what_muster_kept_is_told_when_the_pods_are_gone(cluster, show):
    cluster.take("running")
    kept = {"schema": "muster.dev/kept-training/v1", "outcome": "not-as-asked", "worldSize": 1, "expected": "2"}
    kept |= {"attempt": 0, "pod": "running-node-0-0-x", "created": "2026-11-23T16:00:00Z", "steps": 8, "seconds": 1}
    job = copy.deepcopy(cluster.get("JobSet", "running", "recorded"))
    job["metadata"].setdefault("annotations", {})["muster.dev/training"] = json.dumps(kept)
    cluster.put(job)
    for pod in cluster.all("Pod"):
        cluster.remove("Pod", pod["metadata"]["name"], "recorded")
    told = show("running", "-o", "json").json()["world"]
    assert (told["asked"], told["reached"], told["right"], told["source"]) == ("2", 1, False, "kept")


def test_what_a_training_posted_of_its_progress_is_told_in_one_line_and_as_json(cluster, show):
    cluster.take("running")
    job = copy.deepcopy(cluster.get("TrainJob", "running", "recorded"))
    metrics = [{"name": f"m{number}", "value": str(number)} for number in range(10)]
    posted = {"progressPercentage": 0, "estimatedRemainingSeconds": 600, "lastUpdatedTime": "2026-11-23T16:00:00Z"}
    guard = {"name": "muster.dev/world-size", "value": "1"}
    job.setdefault("status", {})["trainerStatus"] = posted | {"metrics": [*metrics, guard]}
    cluster.put(job)
    told = show("running", "-o", "json").json()["progress"]
    assert (told["percent"], told["remainingSeconds"], told["updated"]) == (0, 600, "2026-11-23T16:00:00Z")
    assert told["metrics"] == {f"m{number}": str(number) for number in range(10)}
    line = " ".join(show("running").out.split())
    assert "PROGRESS 0 %; about 10m left; m0 0, m1 1," in line
    assert "m7 7 and 2 more; posted at 2026-11-23T16:00:00Z" in line


@pytest.mark.parametrize("status", [3, {}, {"progressPercentage": "x", "metrics": 3}])
def test_where_a_training_posted_nothing_no_progress_is_told(cluster, show, status):
    cluster.take("running")
    job = copy.deepcopy(cluster.get("TrainJob", "running", "recorded"))
    job.setdefault("status", {})["trainerStatus"] = status
    cluster.put(job)
    assert show("running", "-o", "json").json()["progress"] is None
    assert "PROGRESS" not in show("running").out


def test_what_a_training_kept_of_its_samples_is_told_in_one_line_and_as_json(cluster, show):
    cluster.take("running")
    sampling = {"reward": 0.875, "syncs": 24, "syncSeconds": 0.12, "difference": 1.25e-07, "ratio": 1.0, "dropped": 0}
    kept = {"schema": "muster.dev/kept-training/v1", "outcome": "as-asked", "worldSize": 1, "expected": "1"}
    kept |= {"attempt": 0, "pod": "running-node-0-0-x", "created": "2026-11-23T16:00:00Z", "steps": 24, "seconds": 9}
    job = copy.deepcopy(cluster.get("JobSet", "running", "recorded"))
    job["metadata"].setdefault("annotations", {})["muster.dev/training"] = json.dumps(kept | {"sampling": sampling})
    cluster.put(job)
    assert show("running", "-o", "json").json()["sampling"] == sampling
    told = " ".join(show("running").out.split())
    assert (
        "SAMPLING reward 0.875; weights sent 24 times, 0.12 s each; log probabilities differ by 1.2e-07;"
        " importance ratio 1; 0 samples dropped" in told
    )


@pytest.mark.parametrize(("name", "code"), [("finishes", 0), ("running", 0), ("crashes", 1), ("smaller", 1)])
def test_check_fails_for_a_job_that_failed_or_has_another_size(cluster, show, name, code):
    cluster.take(name)
    assert show(name, "--check").code == code
    assert show(name).code == 0


def test_a_job_that_is_not_there_has_its_own_exit_code(cluster, show):
    code, out, err = show("none")
    assert (code, out) == (3, "")
    assert "there is no TrainJob or JobSet none in namespace recorded" in err
    assert show().code == 3
    assert show("Not_A_Name").code == 3


def test_a_job_that_was_refused_is_told_by_its_event(cluster, show):
    cluster.say("MusterDenied", "refused for ann: spec.trainer: wrong (x/y)", name="refused")
    told = show("refused", "-o", "json").json()
    assert (told["phase"], told["ageSeconds"]) == ("Refused", None)
    assert [row.split()[0] for row in show().out.splitlines()[1:]] == ["refused"]


def test_a_job_that_was_refused_is_told_by_the_audit_log(cluster, show, tmp_path):
    records = trails.decisions(["14-wrong-numbers"])
    (tmp_path / "audit.log").write_bytes(b"".join(trails.lines(records)))
    name, space = records[0]["object"]["name"], records[0]["object"]["namespace"]
    told = show(name, "-n", space, "--audit", tmp_path / "audit.log", "-o", "json").json()
    assert (told["phase"], told["why"]["code"]) == ("Refused", "refused")
    assert "spec.trainer.numNodes: must be at least 1" in told["why"]["text"]
    assert {each["source"] for each in told["decisions"]} == {"audit"}
    assert show(name, "-n", "elsewhere", "--audit", tmp_path / "audit.log").code == 3


def test_an_audit_log_that_cannot_be_read_is_an_error(cluster, show, tmp_path):
    code, _, err = show("--audit", tmp_path / "none.log")
    assert code == 2
    assert "none.log: cannot be read" in err


def test_what_may_not_be_read_is_said_and_the_rest_is_told(cluster, show):
    cluster.take("finishes")
    cluster.forbid("events", "resourceclaims")
    code, out, _ = show("finishes")
    assert code == 0
    assert "finished with 1 rank" in out
    assert "you may not list events here" in out
    cluster.forbid("trainjobs")
    assert show("finishes").code == 2


def test_all_namespaces_are_asked_for(cluster, show):
    cluster.take("own")
    assert "NAMESPACE" in show("-A").out.splitlines()[0]
    assert [each["name"] for each in show("own", "-A", "-o", "json").json()] == ["own"]
    assert show("-A", "-n", "x").code == 2


def test_events_of_an_earlier_job_of_the_same_name_are_not_told(cluster, show):
    cluster.take("suspended")
    old = {"kind": "Event", **event("MusterDenied", "of old", name="suspended")}
    old["lastTimestamp"] = "2020-01-01T00:00:00Z"
    cluster.put(old)
    assert "of old" not in show("suspended").out


def test_what_authors_write_does_not_move_the_cursor(cluster, show):
    cluster.take("pulls")
    (pod,) = cluster.all("Pod")
    pod["status"]["containerStatuses"][0]["state"]["waiting"]["message"] = "\x1b[2J\u202ehello\nthere"
    for output in ("text", "json"):
        out = show("pulls", "-o", output).out
        assert "hello" in out
        assert "\x1b" not in out
        assert "\u202e" not in out


class Looks:
    """What happens between the looks of a watch, one after the other; the last is Ctrl-C."""

    def __init__(self, monkeypatch, *acts):
        self.acts = list(acts)
        self.pauses = []
        monkeypatch.setattr(status, "_pause", self.pause)

    async def pause(self, seconds):
        self.pauses.append(seconds)
        if not self.acts:
            raise KeyboardInterrupt
        act = self.acts.pop(0)
        act()


def test_a_watch_says_one_line_for_each_change_and_ends_quietly(cluster, show, monkeypatch):
    cluster.take("running")
    Looks(monkeypatch, lambda: None, lambda: cluster.take("own"), lambda: cluster.remove("JobSet", "own", "recorded"))
    code, out, err = show("--watch")
    assert (code, err) == (130, "")
    assert out.splitlines() == [
        "recorded/running: Running, world ?/?: runs: 2 pods",
        "recorded/own: Suspended, world ?/?: is suspended by kubectl-create: spec.suspend is true",
        "recorded/own: gone",
    ]


def test_a_watch_in_json_is_one_object_for_each_change(cluster, show, monkeypatch):
    cluster.take("own")
    Looks(monkeypatch, lambda: cluster.remove("JobSet", "own", "recorded"))
    told = [json.loads(line) for line in show("--watch", "-o", "json").out.splitlines()]
    assert [each["phase"] for each in told] == ["Suspended", "Gone"]
    assert {each["schema"] for each in told} == {"muster.dev/status/v1"}


def test_a_watch_goes_on_after_an_outage_with_growing_pauses_and_says_so_once(cluster, show, monkeypatch):
    cluster.take("own")

    def out_of_order(_method, _plural):
        raise transports.UnreachableError("connection refused")

    looks = Looks(
        monkeypatch,
        lambda: setattr(cluster, "faults", out_of_order),
        lambda: None,
        lambda: None,
        lambda: setattr(cluster, "faults", lambda *_: None),
        lambda: cluster.take("running"),
    )
    _, out, err = show("--watch")
    assert err.splitlines() == ["muster: the cluster cannot be read, and is asked again: connection refused"]
    assert [line.partition(":")[0] for line in out.splitlines()] == ["recorded/own", "recorded/running"]
    assert looks.pauses[0] == looks.pauses[-1] == 2.0
    assert len(looks.pauses) == 6


def test_a_watch_that_may_not_look_ends(cluster, show, monkeypatch):
    Looks(monkeypatch)
    cluster.forbid("trainjobs")
    assert show("--watch").code == 2


def test_a_watch_that_checks_ends_with_the_job(cluster, show, monkeypatch):
    cluster.take("running")
    Looks(monkeypatch, lambda: cluster.take("finishes"), lambda: cluster.take("crashes"))
    assert show("crashes", "--watch", "--check").code == 1


def test_on_a_terminal_one_screen_is_drawn_again_and_is_no_longer_than_it(cluster, show, monkeypatch):
    cluster.take("finishes")
    Looks(monkeypatch, lambda: None)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("LINES", "8")
    screens = show("finishes", "--watch").out.split("\x1b[H\x1b[2J")[1:]
    assert len(screens) == 2
    for screen in screens:
        assert len(screen.splitlines()) <= 7
        assert screen.splitlines()[-1].endswith("more lines")


def posted(cluster, name="running", **metrics):
    """Have the training of a job post what its guard measured."""
    document = copy.deepcopy(cluster.get("TrainJob", name, "recorded"))
    found = {"loss": "0.5", "muster.dev/world-size": "2", "muster.dev/expected-world-size": "2", **metrics}
    listed = [{"name": key, "value": value} for key, value in found.items()]
    document.setdefault("status", {})["trainerStatus"] = {"lastUpdatedTime": "2026-11-28T10:00:00Z", "metrics": listed}
    cluster.put(document)


def test_what_a_running_training_posts_is_shown_beside_what_was_foretold(cluster, show):
    cluster.take("running")
    posted(cluster, **{"muster.dev/nodes": "2", "muster.dev/steps-per-second": "3.5"})
    code, out, _ = show("running")
    assert code == 0
    assert "WORLD 2 asked for; 2 reported by the TrainJob, in its status: as asked; foretold: open" in out
    assert "SEEN 2 nodes; 3.5 steps/s" in out
    found = show("running", "-o", "json").json()
    assert (found["world"]["source"], found["world"]["predicted"], found["world"]["pod"]) == ("trainjob", "open", None)
    assert found["measured"] == {"nodes": 2, "stepsPerSecond": 3.5}
    assert found["problem"] is None


def test_a_job_whose_guard_found_a_fault_says_so_and_what_to_do(cluster, show):
    cluster.take("running")
    posted(cluster, **{"muster.dev/verdict": "device-shared"})
    out = show("running").out
    assert "but the training has 2 ranks, and several of them train on one device" in out
    assert "give each rank a device of its own" in out
    assert show("running", "-o", "json").json()["verdict"] == "device-shared"

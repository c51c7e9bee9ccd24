"""A finding names the line and the column of the field it is about, as far as the file has that field."""

from __future__ import annotations

import json

import pytest

from muster.strategies.documents import paths
from muster.strategies.documents.findings import error
from muster.webhook.cli import findings_report
from muster.webhook.cli.cases import prepare
from muster.webhook.kubeyaml import sources
from tests.cli import jobs

JOB = """\
# a comment
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: sft
  annotations:
    muster.dev/rendezvous: other
spec:
  runtimeRef: {name: trl-distributed}
  trainer:
    numNodes: 0
    env:
      - name: A
        value: b
      - {name: "B", value: c}
    args:
    - --one
    - >-
      --two
"""


def spots(text, *fields, name="job.yaml"):
    """Line and column of fields of the last object of a text."""
    source = sources.read_text(name, text).sources[-1]
    return [tuple(source.find(paths.nearest(source.document, field))) for field in fields]


@pytest.mark.parametrize(
    ("field", "spot"),
    [
        ("apiVersion", (2, 1)),
        ("metadata.name", (5, 3)),
        ("metadata.annotations[muster.dev/rendezvous]", (7, 5)),
        ("spec.runtimeRef", (9, 3)),
        ("spec.runtimeRef.name", (9, 16)),
        ("spec.trainer.numNodes", (11, 5)),
        ("spec.trainer.env", (12, 5)),
        ("spec.trainer.env[A]", (13, 9)),
        ("spec.trainer.env[A].value", (14, 9)),
        ("spec.trainer.env[B].value", (15, 21)),
        ("spec.trainer.args[0]", (17, 7)),
        ("spec.trainer.args[1]", (18, 7)),
    ],
)
def test_a_field_is_where_its_key_or_its_entry_begins(field, spot):
    assert spots(JOB, field) == [spot]


@pytest.mark.parametrize(
    ("field", "spot"),
    [
        ("spec.trainer.resourcesPerNode.limits[nvidia.com/gpu]", (10, 3)),
        ("spec.trainer.env[C].value", (12, 5)),
        ("spec.trainer.env[A].valueFrom", (13, 9)),
        ("spec.trainer.args[7]", (16, 5)),
        ("spec.trainer.numNodes.deeper", (11, 5)),
        ("spec.template.spec", (8, 1)),
        ("status", (2, 1)),
        ("namespace label muster.dev/mode", (2, 1)),
        ("", (2, 1)),
        ("spec.trainer.args of the runtime", (16, 5)),
    ],
)
def test_a_missing_field_is_where_the_nearest_around_it_is(field, spot):
    assert spots(JOB, field) == [spot]


def test_documents_of_a_file_are_counted_through():
    text = f"kind: X\napiVersion: v1\n...\n# more\n---\n{JOB}--- # third\n{JOB}---\n"
    found = sources.read_text("a.yaml", text).sources
    lines = [source.find(("spec", "trainer", "numNodes")) for source in found[1:]]
    assert [tuple(spot) for spot in lines] == [(16, 5), (36, 5)]
    assert found[0].find(("kind",)) == (1, 1)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("head", ["\ufeff", "%YAML 1.1\n---\n", "--- ", "\n\n", "# é 😀\n"])
def test_what_stands_before_a_document_does_not_shift_it(head, end):
    text = (head + "{apiVersion: v1, kind: X,\n  name: 😀, é: {b: 1}}\n").replace("\n", end)
    (source,) = sources.read_text("a.yaml", text).sources
    first = head.count("\n") + 1
    assert source.find(("é", "b")) == (first + 1, 16)
    assert source.find(("kind",)).line == first


def test_an_indented_document_keeps_its_columns():
    assert spots("  apiVersion: v1\n  kind: X\n  spec:\n    a: 1\n", "spec.a") == [(4, 5)]


def test_items_of_a_list_are_found_in_it():
    items = [jobs.two_nodes("a"), jobs.trainjob("b", numNodes=0)]
    text = jobs.stream({"apiVersion": "v1", "kind": "List", "items": items})
    (spot,) = spots(text, "spec.trainer.numNodes")
    assert text.splitlines()[spot[0] - 1] == "      numNodes: 0"
    assert spot[1] == 7


def test_a_type_that_follows_from_the_list_is_at_its_item():
    text = "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n- metadata: {name: b}\n"
    assert spots(text, "kind", "metadata.name") == [(5, 3), (5, 14)]


def test_what_an_alias_or_a_merge_repeats_is_where_it_is_written():
    text = (
        "apiVersion: v1\nkind: X\nbase: &base\n  a: {b: 1}\n  c: 2\nmore: &more {d: 3}\n"
        "alias: *base\nmerged:\n  <<: [*base, *more]\n  c: 4\nsingle: {<<: *more}\n"
    )
    fields = ("alias", "alias.a.b", "merged.a.b", "merged.c", "merged.d", "single.d")
    assert spots(text, *fields) == [(7, 1), (4, 7), (4, 7), (10, 3), (6, 14), (6, 14)]


@pytest.mark.parametrize("indent", [None, 1, 2])
@pytest.mark.parametrize("name", ["a.json", "stdin"])
def test_json_has_places_too(indent, name):
    document = jobs.trainjob('\\" }{ 😀', numNodes=0, args=["a", 'b"', "c"])
    text = '{"apiVersion": "v1", "kind": "X"}\n\t' + json.dumps(document, indent=indent, ensure_ascii=False)
    for field, wanted in (("spec.trainer.numNodes", '"numNodes"'), ("spec.trainer.args[2]", '"c"')):
        ((line, column),) = spots(text, field, name=name)
        assert text.split("\n")[line - 1][column - 1 :].startswith(wanted)


def test_aliases_of_aliases_are_not_written_out():
    text = "apiVersion: v1\nkind: X\na0: &a0 {x: 1}\n"
    text += "".join(f"a{n}: &a{n} {{l: *a{n - 1}, r: *a{n - 1}}}\n" for n in range(1, 14))
    assert spots(text, "a13.l.r.l.r.l.r.l.r.l.r.l.r.l.x") == [(3, 10)]


class Args:
    """Arguments as the commands with `-f` have them."""

    paths, runtimes, namespace, config, trainer = (), (), "default", None, None

    def __init__(self, path):
        self.filename = [str(path)]


@pytest.fixture
def case(write):
    """The case of a job that Muster changes, from a file."""

    def of(document, text=None):
        setup = prepare(Args(write("job.yaml", text or jobs.stream(document))))
        return setup.decide(setup.sources[0])

    return of


def line(case, finding):
    spot = findings_report.of_field(case, finding.field, finding.value)
    return case.source.parsed.around.splitlines()[spot.line - 1].strip()


def test_a_word_that_muster_has_moved_is_where_the_user_wrote_it(case):
    job = jobs.trainjob(command=["trl"], args=["sft", "--dataset_name=d", "--model_name_or_path=m"], numNodes=2)
    decided = case(job)
    assert decided.document["spec"]["trainer"]["args"][0] == "--dataset_name=d"
    stored = error("spec.trainer.args[0]", "--dataset_name=d", "", rule="a/b")
    given = error("spec.trainer.args[1]", "--dataset_name=d", "", rule="a/b")
    added = error("spec.trainer.command[0]", "torchrun", "", rule="a/b")
    assert [line(decided, each) for each in (stored, given)] == ["- --dataset_name=d"] * 2
    assert line(decided, added) == "command:"


def test_a_word_of_a_very_long_list_that_muster_has_changed_is_at_the_list(case):
    words = ["sft", "--dataset_name=d", "--model_name_or_path=m", *map(str, range(2000))]
    decided = case(jobs.jobset("set", jobs.container(command=["trl"], args=words)))
    path = "spec.replicatedJobs[node].template.spec.template.spec.containers[node].args"
    assert line(decided, error(f"{path}[5]", "2", "", rule="a/b")) == "- '2'"
    assert line(decided, error(f"{path}[5]", "other", "", rule="a/b")) == "args:"


def test_a_field_that_muster_added_is_at_what_is_around_it(case):
    decided = case(jobs.trainjob("sft"))
    assert "trainer" in decided.document["spec"]
    assert line(decided, error("spec.trainer.numNodes", None, "", rule="a/b")) == "spec:"


def test_a_prediction_is_at_its_trainjob(muster, write):
    path = write("job.yaml", jobs.stream(jobs.configmap(), jobs.two_nodes()))
    found = muster("explain", "-o", "json", "-f", path).json()
    assert [each["object"] for each in found] == ["TrainJob/sft", "JobSet/sft"]
    assert all(finding["line"] for each in found for finding in each["findings"])


def test_the_place_is_printed_as_compilers_print_it(muster, write):
    path = write("job.yaml", JOB)
    out = muster("check", "-f", path).out.splitlines()
    assert f"{path}:11:5: error: TrainJob/sft spec.trainer.numNodes: 0: must be at least 1 (core/numbers)" in out
    assert all(each.startswith(f"{path}:") for each in out)


def test_a_failure_of_muster_is_at_its_job(muster):
    snapshot = jobs.configmap("sft-runtime-snapshot", runtime="a: [")
    owned = jobs.jobset("sft")
    owner = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "sft", "uid": "u"}
    owned["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    out = muster("check", "-f", "-", stdin=jobs.stream(owned, jobs.two_nodes("other"), snapshot)).out
    assert out.startswith("stdin:2:1: error: JobSet/sft ConfigMap default/sft-runtime-snapshot: data.runtime is not")


def test_explain_names_the_place_too(muster, write):
    path = write("job.yaml", JOB)
    (found, *_) = muster("explain", "-o", "json", "-f", path).json()
    assert (11, 5) in {(each["line"], each["column"]) for each in found["findings"]}
    # Where a line ends depends on how long the name of the folder is.
    out = "".join(muster("explain", "-f", path).out.split())
    assert f"{path}:11:5:errorspec.trainer.numNodes:0" in out

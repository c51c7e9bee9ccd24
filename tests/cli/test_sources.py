"""Documents come from files, folders and stdin, each with its place; what cannot be read is named and collected."""

from __future__ import annotations

import io
import json

import pytest
import yaml

from muster.webhook.kubeyaml import sources
from tests.cli import jobs

STREAM = jobs.stream(jobs.trainjob("one"), jobs.configmap("two"))


def read(*paths, stdin=b""):
    return sources.read(map(str, paths), io.BytesIO(stdin))


def names(found):
    return [source.document["metadata"]["name"] for source in found.sources]


def only_fault(found):
    assert not found.sources
    (fault,) = found.unreadable
    return str(fault)


def test_documents_know_their_file_number_and_line(write):
    path = write("jobs.yaml", f"# a comment\n{STREAM}")
    places = [str(source.origin) for source in read(path).sources]
    assert places == [f"{path}:doc 1", f"{path}:doc 2"]
    starts = [number for number, line in enumerate(path.read_text().splitlines(), 1) if line == "---"]
    assert [source.origin.line for source in read(path).sources] == starts


def test_a_folder_is_read_at_any_depth_in_sorted_order_and_nothing_else_in_it(write, tmp_path):
    for name in ("b.yaml", "a/z.yml", "c.json", "notes.txt", "a/README.md"):
        write(name, json.dumps(jobs.configmap(name.replace("/", "-"))))
    assert names(read(tmp_path)) == ["a-z.yml", "b.yaml", "c.json"]


def test_several_names_are_read_in_the_order_given_and_each_once(write):
    first, second = (write(f"{name}.yaml", jobs.stream(jobs.configmap(name))) for name in "ab")
    assert names(read(second, first, second)) == ["b", "a"]


def test_a_dash_is_standard_input():
    found = read("-", stdin=STREAM.encode())
    assert names(found) == ["one", "two"]
    assert str(found.sources[0].origin) == "stdin:doc 1"


def test_json_lines_and_documents_that_follow_each_other_are_read(write):
    text = "\n".join(json.dumps(jobs.configmap(name)) for name in "ab") + json.dumps(jobs.configmap("c"), indent=1)
    found = read(write("jobs.json", text))
    assert names(found) == ["a", "b", "c"]
    assert [source.origin.line for source in found.sources] == [1, 2, 2]


def test_json_on_stdin_is_json_and_a_flow_mapping_is_still_yaml():
    surrogates = rb'{"apiVersion": "v1", "kind": "X", "metadata": {"name": "\ud83d\ude80"}}'
    assert names(read("-", stdin=surrogates)) == ["\U0001f680"]
    assert names(read("-", stdin=b"{apiVersion: v1, kind: X, metadata: {name: flow}}")) == ["flow"]


def test_a_kubernetes_list_is_taken_apart(write):
    document = {"apiVersion": "v1", "kind": "List", "items": [jobs.trainjob("one"), jobs.configmap("two")]}
    found = read(write("list.yaml", json.dumps(document)))
    assert names(found) == ["one", "two"]
    assert str(found.sources[1].origin).endswith("list.yaml:doc 1 item 2")


def test_the_items_of_a_typed_list_get_its_type():
    items = [{"metadata": {"name": "one"}, "spec": {}}]
    text = json.dumps({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJobList", "items": items})
    (source,) = read("-", stdin=text.encode()).sources
    assert (source.kind, source.group) == ("TrainJob", "trainer.kubeflow.org")


def test_an_object_whose_kind_ends_in_list_is_no_list_when_it_has_a_name():
    text = '{"apiVersion": "x/v1", "kind": "AllowList", "metadata": {"name": "a"}, "items": ["b"]}'
    assert names(read("-", stdin=text.encode())) == ["a"]


def test_empty_documents_count_and_are_no_objects():
    found = read("-", stdin=b"---\n---\napiVersion: v1\nkind: X\nmetadata: {name: a}\n---\n# nothing\n")
    assert [str(source.origin) for source in found.sources] == ["stdin:doc 2"]


def test_a_byte_order_mark_is_no_part_of_the_text(write):
    assert names(read(write("one.json", b"\xef\xbb\xbf" + json.dumps(jobs.configmap("one")).encode()))) == ["one"]
    for text in (STREAM, json.dumps(jobs.configmap("one"))):
        assert names(read("-", stdin=b"\xef\xbb\xbf" + text.encode()))[0] == "one"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: [1", "jobs.yaml:doc 1 line 2: is not YAML: while parsing a flow sequence (line 1)"),
        (b"ok: \xff\xfe", "jobs.yaml: is not UTF-8 at line 1 (byte 4)"),
        ("a: ä".encode("utf-16"), "jobs.yaml: is not UTF-8"),
        (b"- a", "jobs.yaml:doc 1 line 1: is a list, not a Kubernetes object"),
        (b"text", "is a text"),
        (b"3", "is a number"),
        (b"kind: TrainJob", "apiVersion: every Kubernetes object needs one, as a string"),
        (b"apiVersion: v1\nkind: 3", "kind: every Kubernetes object needs one, as a string"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_the_place_in_it(write, content, message):
    assert message in only_fault(read(write("jobs.yaml", content)))


HEAD = "apiVersion: v1\nkind: A\n"


@pytest.mark.parametrize(
    ("text", "values", "repeats"),
    [
        (HEAD + "x: {a: 1, a: 1}", {"a": 1}, [(("x", "a"), False, False)]),
        (HEAD + "x: {a: 1, a: 2, a: 3}", {"a": 3}, [(("x", "a"), True, False)] * 2),
        (HEAD + "x:\n- b: {c: 1, c: 2}\n", [{"b": {"c": 2}}], [(("x", 0, "b", "c"), True, False)]),
        (HEAD + "m: &m {a: 1}\nx: {<<: *m, a: 2}", {"a": 2}, []),
        (HEAD + "m: &m {a: 1}\nx: {<<: *m, a: 2, a: 3}", {"a": 3}, [(("x", "a"), True, False)]),
        (HEAD + "m: &m {a: 1}\nx: {a: 2, <<: *m}", {"a": 1}, [(("x", "a"), True, True)]),
        (HEAD + "m: &m {a: 1}\nx: {a: 1, <<: *m}", {"a": 1}, []),
        ('{"apiVersion": "v1", "kind": "A", "x": [{"a": 1, "a": 2}]}', [{"a": 2}], [(("x", 0, "a"), True, False)]),
        (
            '{"apiVersion": "v1", "kind": "A", "x": {"a": 1, "b": {}, "a": 1}}',
            {"a": 1, "b": {}},
            [(("x", "a"), False, False)],
        ),
    ],
)
def test_of_a_member_that_is_written_twice_the_last_counts_and_its_place_is_known(write, text, values, repeats):
    (source,) = read(write("a.yaml", text)).sources
    assert source.document["x"] == values
    assert [tuple(each) for each in source.repeats] == repeats


def test_an_item_of_a_list_knows_its_own_repeated_members_only(write):
    items = "- {apiVersion: v1, kind: A, a: 1}\n- {apiVersion: v1, kind: B, a: 1, a: 2}\n"
    text = f"apiVersion: v1\nkind: List\nitems:\n{items}"
    assert [[each.path for each in source.repeats] for source in read(write("a.yaml", text)).sources] == [[], [("a",)]]


def test_documents_of_json_may_have_markers_between_them(write):
    text = '{"apiVersion": "v1", "kind": "A"}\n---\n{"apiVersion": "v1", "kind": "B"}\n---\napiVersion: v1\nkind: C\n'
    for name in ("a.json", "a.yaml"):
        assert [source.kind for source in read(write(name, text)).sources] == ["A", "B", "C"]


def test_a_byte_order_mark_may_begin_each_file_of_several_that_were_joined(write):
    assert [each.kind for each in read(write("a.yaml", f"{HEAD}---\n\ufeff{HEAD}")).sources] == ["A", "A"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"a": NaN}', "NaN is a number that JSON does not have"),
        ("{\n  a: 1}", "doc 1 line 2: is not JSON"),
        ('{"a": "\\ud800"}', "half of a surrogate pair"),
        ("[" * 100_000, "nested more than 128 levels"),
        ('{"a":' * 200 + "1" + "}" * 200, "nested more than 128 levels"),
        (f'{{"a": {"9" * 5000}}}', "Exceeds the limit"),
    ],
)
def test_json_is_read_as_strictly_as_yaml(write, content, message):
    assert message in only_fault(read(write("jobs.json", content)))


def test_faults_of_several_files_are_collected_and_the_rest_is_read(write, tmp_path):
    write("a.yaml", "a: [")
    write("b.yaml", STREAM)
    write("c.yaml", f"{STREAM}---\nkind: TrainJob\n")
    found = read(tmp_path, tmp_path / "missing.yaml")
    assert names(found) == ["one", "two", "one", "two"]
    assert [fault.origin.file.rsplit("/", 1)[-1] for fault in found.unreadable] == ["a.yaml", "c.yaml", "missing.yaml"]
    assert found.unreadable[1].origin.document == 3


def test_a_missing_file_and_an_empty_folder_are_faults(tmp_path):
    assert "cannot be read: No such file" in only_fault(read(tmp_path / "missing.yaml"))
    assert "the folder has no *.json, *.yaml, *.yml" in only_fault(read(tmp_path))


def test_a_file_larger_than_the_limit_is_refused_before_it_is_parsed(write, monkeypatch):
    monkeypatch.setattr(sources, "MAX_BYTES", 1024**2)
    assert "is larger than 1 MiB" in only_fault(read(write("big.yaml", b"a" * (1024**2 + 1))))


def test_of_an_endless_stream_no_more_is_read_than_tells_that_it_is_too_long(monkeypatch):
    class Endless:
        def read(self, size):
            self.asked = size
            return b"a" * size

    monkeypatch.setattr(sources, "MAX_BYTES", 1024**2)
    endless = Endless()
    assert "is larger than" in only_fault(sources.read(["-"], endless))
    assert endless.asked == 1024**2 + 1


def test_json_that_is_no_object_of_kubernetes_does_not_hide_what_follows(write):
    found = read(write("jobs.json", '{}\n{"a": 1}\n' + json.dumps(jobs.configmap("b")) + "\n{"))
    assert names(found) == ["b"]
    assert [(each.origin.document, each.origin.line) for each in found.unreadable] == [(1, 1), (2, 2), (4, 4)]


def test_an_item_that_is_no_object_does_not_hide_the_next():
    items = [{"kind": "X"}, jobs.trainjob("one"), 3, jobs.configmap("two")]
    found = read("-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode())
    assert names(found) == ["one", "two"]
    assert [each.origin.item for each in found.unreadable] == [1, 3]


def test_places_are_right_behind_documents_that_cannot_be_read():
    broken = "# first\n---\nä: [\n---\n# \U0001f680\n@\n---\n"
    found = read("-", stdin=(broken + "# here\napiVersion: v1\nkind: X\nmetadata:\n  name: ü\n").encode())
    (source,) = found.sources
    assert (source.origin.document, source.origin.line) == (3, 7)
    assert source.find(("metadata", "name")) == (12, 3)
    assert [str(each).partition(": ")[0] for each in found.unreadable] == ["stdin:doc 1 line 4", "stdin:doc 2 line 6"]


def test_a_character_that_yaml_forbids_spoils_only_its_document():
    good = jobs.stream(jobs.configmap("a"))
    found = read("-", stdin=f"{good}---\na: \x01\n{jobs.stream(jobs.configmap('b'))}".encode())
    assert names(found) == ["a", "b"]
    assert [each.origin.document for each in found.unreadable] == [2]


def test_a_file_of_nothing_but_faults_is_left_after_a_hundred():
    found = read("-", stdin=b"---\n@\n" * 1000)
    assert len(found.unreadable) == sources.MAX_FAULTS + 1
    assert str(found.unreadable[-1]).startswith("stdin: has more than 100 documents that cannot be read; ")


def test_the_work_of_reading_on_behind_faults_grows_with_the_length_of_the_text(monkeypatch):
    lengths = []
    loader = yaml.CSafeLoader
    monkeypatch.setattr(yaml, "CSafeLoader", lambda text: lengths.append(len(text)) or loader(text))
    text = "---\n@\n" * 90
    read("-", stdin=text.encode())
    assert sum(lengths) <= 2 * len(text)

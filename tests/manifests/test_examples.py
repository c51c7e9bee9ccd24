"""The examples: documents that a cluster takes, each with a story, and a table that lists them all."""

from __future__ import annotations

import re

import pytest

from tests.manifests import files, rules

each_example = pytest.mark.parametrize("path", files.EXAMPLES, ids=lambda path: path.stem)


@each_example
def test_every_document_of_an_example_has_known_fields_and_a_runtime_of_ours(path):
    for document in files.documents(path):
        assert rules.check(document, files.runtimes()) == []


@each_example
def test_an_example_says_what_is_expected_and_what_happens_without_muster(path):
    said = files.header(path)
    assert "Expected" in said
    assert "Without Muster:" in said


def test_examples_are_numbered_without_a_gap():
    assert [int(path.stem[:2]) for path in files.EXAMPLES] == list(range(1, len(files.EXAMPLES) + 1))


def test_the_table_lists_every_example_in_order():
    table = (files.FOLDER / "examples" / "README.md").read_text()
    assert re.findall(r"^\| (\d\d-[\w-]+) \|", table, re.MULTILINE) == [path.stem for path in files.EXAMPLES]


def test_examples_that_are_applied_together_do_not_overwrite_each_other():
    documents = [document for path in files.EXAMPLES for document in files.documents(path)]
    names = [
        (document["kind"], document["metadata"]["name"]) for document in documents if "name" in document["metadata"]
    ]
    assert len(set(names)) == len(names)


def test_a_file_of_several_documents_holds_some_that_are_none_of_our_business():
    (mixed,) = (path for path in files.EXAMPLES if path.stem.endswith("mixed-documents"))
    kinds = [document["kind"] for document in files.documents(mixed)]
    assert kinds == ["ConfigMap", "Service", "TrainJob"]


def test_the_sampler_of_an_example_is_reached_by_its_own_job_only():
    (path,) = (path for path in files.EXAMPLES if path.stem.endswith("grpo-with-a-sampler"))
    job, policy = files.documents(path)
    own = {"matchLabels": {"jobset.sigs.k8s.io/jobset-name": job["metadata"]["name"]}}
    assert policy["spec"]["podSelector"] == own
    assert policy["spec"]["ingress"] == [{"from": [{"podSelector": own}]}]

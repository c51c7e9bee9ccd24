"""`muster audit verify` with anchors: noted by a person, in a file, and in the ConfigMap that the service keeps."""

from __future__ import annotations

import json

import pytest

from muster.audit import anchor_notes, chain
from tests.cli.test_audit import record


@pytest.fixture
def lines():
    link = chain.Chain()
    return [link.seal(record(number)) for number in range(1, 10)]


@pytest.fixture
def log(write, lines):
    """Nine records in three files; returns the path of the newest."""
    write("audit.log.2", b"".join(lines[:3]))
    write("audit.log.1", b"".join(lines[3:6]))
    return write("audit.log", b"".join(lines[6:]))


def noted(line):
    return f"{json.loads(line)['seq']}:{json.loads(line)['hash']}"


def hour(number):
    return f"2026-03-01T{number:02}:00:00.000000Z"


def configmap(**chains):
    """A ConfigMap with the chains of pods; the anchor of record N was noted at N o'clock."""
    data = {}
    for pod, sealed in chains.items():
        each = [json.loads(line) for line in sealed]
        marks = tuple(anchor_notes.Anchor(one["seq"], one["hash"], hour(one["seq"])) for one in each)
        data[f"{pod}.1.0"] = anchor_notes.rendered(anchor_notes.Chronicle(pod, "/var/log/muster/audit.log", marks))
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": anchor_notes.NAME}, "data": data})


def verified(muster, log, *options, code):
    result = muster("audit", "verify", log, *options)
    assert result.code == code, result.err
    return result.out if code == 1 else result.err


def test_a_log_that_has_its_anchors_is_intact(muster, log, lines):
    assert "the chain is intact" in verified(muster, log, *(f"--anchor={noted(each)}" for each in lines), code=0)


@pytest.mark.parametrize(
    ("left", "said"),
    [(8, "ends at record 8"), (7, "ends at record 7")],
)
def test_a_cut_tail_is_found(muster, log, lines, left, said):
    log.write_bytes(b"".join(lines[6:left]))
    assert muster("audit", "verify", log).code == 0
    out = verified(muster, log, "--anchor", noted(lines[8]), code=1)
    assert out.startswith(f"{log}:0: anchor: record 9 with hash ")
    assert f"the log {said}: its end was cut off, or this is an older copy\n" in out


def test_a_newest_file_that_is_gone_is_found(muster, log, lines):
    log.unlink()
    assert muster("audit", "verify", log).code == 0
    assert "the log ends at record 6" in verified(muster, log, "--anchor", noted(lines[8]), code=1)


@pytest.mark.parametrize("data", [b"", b"\n\n"])
def test_an_emptied_log_is_found(muster, write, lines, data):
    out = verified(muster, write("empty.log", data), "--anchor", noted(lines[8]), code=1)
    assert "empty.log:0: anchor: record 9" in out
    assert "the log has no records: they were removed" in out


def test_an_older_copy_with_the_same_name_is_found(muster, write, lines):
    assert "older copy" in verified(muster, write("a.log", b"".join(lines[:4])), "--anchor", noted(lines[4]), code=1)


def test_a_log_written_anew_and_an_anchor_of_another_log_read_alike(muster, log, lines):
    other = chain.Chain().seal(record(1, uid="other"))
    out = verified(muster, log, "--anchor", noted(other), code=1)
    assert "another record of this number: it was rewritten, or this is the anchor of another log" in out


def test_each_missing_anchor_is_told_once(muster, log, lines):
    log.write_bytes(b"")
    options = [f"--anchor={noted(each)}" for each in (lines[1], lines[7], lines[8], lines[8])]
    assert verified(muster, log, *options, code=1).count(": anchor: ") == 2


def test_an_anchor_of_any_process_of_a_collected_log_is_found(muster, write, lines):
    link = chain.Chain()
    second = [link.seal(record(number, uid="again")) for number in (1, 2)]
    path = write("all.log", b"".join([*lines, *second]))
    verified(muster, path, "--restarts", "--anchor", noted(lines[6]), "--anchor", noted(second[1]), code=0)
    path.write_bytes(b"".join([*lines[:6], *second]))
    out = verified(muster, path, "--restarts", "--anchor", noted(lines[6]), "--anchor", noted(second[1]), code=1)
    assert out.count(": anchor: ") == 1


@pytest.mark.parametrize("form", ["anchors", "records"])
def test_anchors_may_be_in_a_file(muster, log, lines, write, form):
    texts = [noted(lines[2]), "", noted(lines[8])] if form == "anchors" else [lines[2].decode(), lines[8].decode()]
    file = write("anchors.txt", "\n".join(texts).encode())
    verified(muster, log, "--anchors", file, code=0)
    log.write_bytes(lines[6])
    assert "record 9 with hash" in verified(muster, log, "--anchors", file, code=1)


@pytest.mark.parametrize(
    "text", ["9", "9:abc", "x:" + "a" * 64, "-1:" + "a" * 64, "9" * 5000 + ":" + "a" * 64, '{"seq":1}', "[1]"]
)
def test_what_is_no_anchor_is_said(muster, log, write, text):
    file = write("anchors.txt", text.encode())
    assert "is not an anchor; write each as SEQ:HASH" in verified(muster, log, f"--anchor={text}", code=2)
    assert f"--anchors: {file}:1: " in verified(muster, log, "--anchors", file, code=2)


def test_a_file_without_anchors_is_said_and_one_that_is_missing_too(muster, log, write, tmp_path):
    assert "has no anchor" in verified(muster, log, "--anchors", write("none.txt", b"\n"), code=2)
    err = verified(muster, log, "--anchors", tmp_path / "gone.txt", code=2)
    assert err == f"muster: {tmp_path}/gone.txt: cannot be read: No such file or directory\n"


def test_anchors_are_of_one_log(muster, log, lines, write):
    other = write("other.log", b"".join(lines))
    result = muster("audit", "verify", log, other, "--anchor", noted(lines[8]))
    assert (result.code, "name one FILE" in result.err) == (2, True)


# What the service noted


def test_a_log_that_has_all_that_was_noted_is_intact(muster, log, lines, write):
    saved = write("anchors.json", configmap(a=lines[1:5], b=lines[5:], other=foreign()).encode())
    verified(muster, log, "--anchors", saved, code=0)


def foreign():
    """The chain of another replica."""
    link = chain.Chain()
    return [link.seal(record(number, uid="elsewhere")) for number in (1, 2, 3)]


def test_a_log_cut_anywhere_lacks_what_was_noted(muster, write, lines):
    saved = write("anchors.json", configmap(a=lines[1:5], b=lines[4:], other=foreign()).encode())
    for left in range(9):
        out = verified(muster, write("stolen.log", b"".join(lines[:left])), "--anchors", saved, code=1)
        assert out.count(": anchor: ") == 1, left


def test_what_is_missing_is_named_with_its_pod_and_time(muster, write, lines):
    saved = write("anchors.json", configmap(a=lines).encode())
    out = verified(muster, write("stolen.log", b"".join(lines[:4])), "--anchors", saved, code=1)
    assert f"pod a, /var/log/muster/audit.log, noted {hour(5)}: record 5 with hash " in out
    assert "the log ends at record 4: its end was cut off, or this is an older copy (5 anchors of this chain" in out


def test_a_log_written_anew_has_nothing_of_what_was_noted(muster, write, lines):
    saved = write("anchors.json", configmap(a=lines).encode())
    link = chain.Chain()
    forged = b"".join(link.seal(record(number, decision="denied")) for number in range(1, 10))
    out = verified(muster, write("forged.log", forged), "--anchors", saved, code=1)
    assert "the log has none of the records that were noted about the cluster: it was rewritten" in out


def test_files_that_rotation_deleted_are_not_missed(muster, write, lines):
    saved = write("anchors.json", configmap(a=lines).encode())
    verified(muster, write("late.log", b"".join(lines[6:])), "--anchors", saved, code=0)


def test_what_was_noted_after_the_copy_is_not_expected(muster, write, lines):
    saved = write("anchors.json", configmap(a=lines).encode())
    copy = write("copy.log", b"".join(lines[:4]))
    verified(muster, copy, "--anchors", saved, "--copied", hour(4), code=0)
    verified(muster, copy, "--anchors", saved, "--copied", hour(5), code=1)
    assert "--copied: 'noon' is not a time" in verified(muster, copy, "--anchors", saved, "--copied=noon", code=2)


def test_one_pod_can_be_named(muster, write, lines):
    saved = write("anchors.json", configmap(a=lines, b=foreign()).encode())
    log = write("copy.log", b"".join(lines))
    verified(muster, log, "--anchors", saved, "--pod", "a", code=0)
    assert "noted about pod b: it was rewritten" in verified(muster, log, "--anchors", saved, "--pod", "b", code=1)
    out = verified(muster, log, "--anchors", saved, "--pod", "c", code=1)
    assert "nothing is noted about pod c; there are notes about a, b" in out


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"pod":"a","sink":"b","anchors":[]}', '{"pod":"a","sink":"b","anchors":[{"seq":"1"}]}']
)
def test_a_configmap_that_muster_did_not_write_is_said(muster, log, write, text):
    saved = write("anchors.json", json.dumps({"kind": "ConfigMap", "data": {"x": text}}).encode())
    assert f"{saved}: data.x: " in verified(muster, log, "--anchors", saved, code=2)


def test_a_cluster_that_cannot_be_reached_is_said(muster, log, tmp_path):
    err = verified(muster, log, "--anchors-from-cluster", "--kubeconfig", tmp_path / "none", code=2)
    assert err.startswith("muster: --anchors-from-cluster: ")


def test_options_of_the_cluster_need_the_cluster(muster, log):
    assert "give --anchors-from-cluster too" in verified(muster, log, "--pod", "a", code=2)

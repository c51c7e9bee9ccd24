from __future__ import annotations

import hashlib
import json

import orjson
import pytest

from muster.audit import chain, record_schema


def test_the_first_record_is_number_one_and_follows_genesis(make_record):
    record = orjson.loads(chain.Chain().seal(make_record()))
    assert (record["seq"], record["prev"]) == (1, chain.GENESIS)


def test_each_record_carries_the_hash_of_the_one_before(sealed):
    first, second, third = map(orjson.loads, sealed(3))
    assert (second["prev"], third["prev"]) == (first["hash"], second["hash"])
    assert [first["seq"], second["seq"], third["seq"]] == [1, 2, 3]


def test_the_hash_can_be_computed_without_our_code(make_record):
    record = json.loads(chain.Chain(7, "a" * 64).seal(make_record(framework="größe")))
    claimed = record.pop("hash")
    canonical = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert hashlib.sha256(canonical.encode()).hexdigest() == claimed


def test_a_sealed_record_is_one_line_that_fits_the_schema(make_record):
    line = chain.Chain().seal(make_record(message="two\nlines"))
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    assert record_schema.misfit(orjson.loads(line)) is None


def test_sealing_does_not_change_the_record(make_record):
    record = make_record()
    chain.Chain().seal(record, dropped=3)
    assert record == make_record()


def test_lost_records_are_told_only_when_there_are_some(make_record):
    link = chain.Chain()
    assert "dropped" not in orjson.loads(link.seal(make_record(), dropped=0))
    assert orjson.loads(link.seal(make_record(), dropped=3))["dropped"] == 3


def test_a_record_that_json_cannot_hold_leaves_the_chain_where_it_was(make_record):
    link = chain.Chain(4, "a" * 64)
    with pytest.raises(TypeError):
        link.seal(make_record(changes=[object()]))
    assert (link.seq, link.prev) == (4, "a" * 64)


def test_a_chain_resumes_after_its_last_line(sealed, make_record):
    last = sealed(3)[-1]
    resumed = orjson.loads(chain.Chain.resume_from(last).seal(make_record()))
    assert (resumed["seq"], resumed["prev"]) == (4, orjson.loads(last)["hash"])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b'"}\n', b"", "it is not JSON"),
        (b'"seq":2', b'"seq":"2"', "seq: '2' is not an integer"),
        (b"alice", b"mallo", "after record 2: it was edited"),
    ],
)
def test_a_chain_does_not_resume_after_a_line_that_is_not_whole(sealed, old, new, message):
    with pytest.raises(chain.ChainError, match=message):
        chain.Chain.resume_from(sealed(2)[-1].replace(old, new))


def test_a_sealed_record_can_be_sealed_again(sealed):
    again = chain.Chain(8, "a" * 64).seal(orjson.loads(sealed(1)[0]))
    assert again.count(b'"hash"') == 1
    assert chain.Chain.resume_from(again).seq == 9

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.kube import payloads, transports


class Answer:
    """A response with a body in given pieces."""

    def __init__(self, *pieces, status=200, headers=None):
        self.status = status
        self.headers = headers or {}
        self._pieces = pieces

    async def chunks(self):
        for piece in self._pieces:
            yield piece


async def lines(answer, limit=1000):
    return [line async for line in payloads.lines(answer, limit, "an event")]


def cut(body, places):
    edges = [0, *sorted(place % (len(body) + 1) for place in places), len(body)]
    return [body[start:end] for start, end in itertools.pairwise(edges)]


@given(
    st.lists(st.binary(min_size=1, max_size=20).filter(lambda line: b"\n" not in line), max_size=8),
    st.lists(st.integers(0, 200), max_size=6),
)
async def test_lines_are_the_same_wherever_chunks_end(expected, places):
    body = b"".join(line + b"\n" for line in expected)
    assert await lines(Answer(*cut(body, places))) == expected


async def test_an_unended_rest_is_dropped():
    assert await lines(Answer(b"one\n\ntwo\nthr", b"ee")) == [b"one", b"two"]


@pytest.mark.parametrize("pieces", [(b"x" * 11,), (b"xxxxxx", b"xxxxx"), (b"ok\n" + b"x" * 11 + b"\n",)])
async def test_a_line_over_the_cap_is_an_error_before_it_has_ended(pieces):
    with pytest.raises(transports.OversizedError, match="an event is larger than"):
        await lines(Answer(*pieces), limit=10)


async def test_a_body_over_the_cap_is_an_error():
    assert await payloads.read(Answer(b'{"a":', b"1}"), 7, "a page") == {"a": 1}
    with pytest.raises(transports.OversizedError, match="a page is larger than"):
        await payloads.read(Answer(b'{"a":', b"1}"), 6, "a page")


@pytest.mark.parametrize(("body", "said"), [(b"<html>", "is not JSON"), (b"[]", "is JSON list, not an object")])
def test_what_is_no_json_object_is_an_error(body, said):
    with pytest.raises(transports.MalformedError, match=f"a page {said}"):
        payloads.parsed(body, "a page")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"message":"trainjobs is forbidden"}', "HTTP 403: trainjobs is forbidden"),
        (b"404 page\nnot found\n", "HTTP 403: 404 page not found"),
        (b"{}", "HTTP 403: no message"),
        (b"x" * 70000, "HTTP 403: a long answer that is not a Status object"),
    ],
)
async def test_a_refusal_says_what_the_server_said(body, said):
    with pytest.raises(transports.RefusedError) as refused:
        await payloads.checked(Answer(body, status=403))
    assert str(refused.value) == said


@pytest.mark.parametrize(("header", "seconds"), [("7", 7.0), ("soon", None), ("-1", None), ("²", None), ("", None)])
async def test_a_request_to_wait_is_read_in_seconds(header, seconds):
    with pytest.raises(transports.RefusedError) as refused:
        await payloads.checked(Answer(b"{}", status=429, headers={"Retry-After": header}))
    assert refused.value.retry_after == seconds


async def test_a_success_passes():
    answer = Answer(b"{}")
    assert await payloads.checked(answer) is answer

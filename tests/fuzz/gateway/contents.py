"""Attacks by what a request holds: JSON, protobuf, compressed bytes, ids, links."""

from __future__ import annotations

import json
from urllib.parse import quote

import zstandard

from tests.fuzz.gateway.heads import REFUSED
from tests.fuzz.gateway.requests import GETS, Request, drawn, pass_of, rendered
from tests.fuzz.gateway.wire import Sent

__all__ = ["ATTACKS"]

TEXTS = (
    "",
    "\0",
    "a\0b",
    "../../../../etc/passwd",
    "%2e%2e%2f",
    "a/b",
    "\ud800",
    "\u202e\u0000",
    "é" * 3000,
    "x" * 20_000,
    "' OR 1=1 --",
    "{{7*7}}",
    "${jndi:ldap://x}",
    "<script>alert(1)</script>",
    "\x1b[2J",
    "\r\nSet-Cookie: a=b",
    "$(id)",
    "tinker://",
    "tinker://a/weights/../../x",
    "=cmd|' /C calc'!A0",
    "\N{GRINNING FACE}" * 100,
)
NUMBERS = (
    "NaN",
    "Infinity",
    "-Infinity",
    "1e999",
    "-0",
    "-1",
    "1.5",
    "9" * 400,
    "9" * 4400,
    "18446744073709551616",
    "1e2",
    "01",
    "0x1",
    "1_0",
)
RAW = (
    b"",
    b" ",
    b"{",
    b"{}",
    b"[]",
    b"null",
    b"\xff\xfe{\x00}\x00",
    b"\xef\xbb\xbf{}",
    b'{"a":1}{"b":2}',
    b'{"a":1,}',
    b'{"\\ud800":1}',
    b'{"\xff":1}',
    b'{"a":"\x00"}',
    b'{"a"' + b" " * 5000 + b":1}",
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b'{"session_id":"a","session_id":' * 20 + b"1" + b"}" * 20,
    b'{"x":[' + b"[]," * 30_000 + b"0]}",
    b'{"x":[' + b"0," * 400_000 + b"0]}",
    b'{"x":"' + b"\\u0041" * 100_000 + b'"}',
    b"{" + b",".join(b'"%d":0' % number for number in range(20_000)) + b"}",
    b'{"x":' + b"9" * 1_000_000 + b"}",
)


def value(rng):
    """Return JSON that does not belong where it is put."""
    forms = [
        lambda: rng.choice(NUMBERS),
        lambda: json.dumps(rng.choice(TEXTS)),
        lambda: rng.choice(["null", "true", "[]", "{}", "[[]]", '{"a": {"a": 1}}', '""']),
        lambda: "[" * (depth := rng.choice([3, 60, 100, 190, 199, 250, 1000])) + "]" * depth,
        lambda: '{"a":' * (depth := rng.choice([3, 60, 100, 190, 199, 250])) + "1" + "}" * depth,
        lambda: "[" + ",".join(["[" * 190 + "]" * 190] * 20) + "]",
        lambda: "[" + "0," * rng.choice([100, 10_000, 100_000]) + "0]",
        lambda: '"' + "\\ud83d" * rng.choice([1, 100]) + '"',
    ]
    return rng.choice(forms)()


def odd_json(rng, world, seq):
    """A member with another value, one twice, one more; or no JSON at all."""
    request = drawn(rng, world.mine, seq, posts=True)
    if rng.random() < 0.25 or "protobuf" in request.headers[0][1]:
        request.body = rng.choice(RAW)
        return [Sent([rendered(request, world.key)])]
    known = json.loads(request.body)
    name = rng.choice(sorted(known) or ["x"])
    members = [(json.dumps(each), json.dumps(of)) for each, of in known.items()]
    which = rng.randrange(4)
    if which == 0:
        members = [(each, value(rng) if each == json.dumps(name) else of) for each, of in members]
    elif which == 1:
        members.insert(rng.randrange(len(members) + 1), (json.dumps(name), value(rng)))
    elif which == 2:
        members.append(
            (
                json.dumps(rng.choice([*TEXTS, "user_metadata", "tags", "type", "__proto__", "model_id", "seq_id"])),
                value(rng),
            )
        )
    else:
        inner = [(each, _within(rng, of)) for each, of in members]
        members = inner
    rng.shuffle(members)
    text = "{" + ", ".join(f"{each}: {of}" for each, of in members) + "}"
    request.body = text.encode("utf-8", "surrogatepass" if rng.random() < 0.1 else "replace")
    return [Sent([rendered(request, world.key)])]


def _within(rng, text):
    """Return a value with another in one place of it."""
    of = json.loads(text)
    if isinstance(of, dict) and of:
        name = rng.choice(sorted(of))
        return (
            "{"
            + ", ".join(
                f"{json.dumps(each)}: {value(rng) if each == name else json.dumps(one)}" for each, one in of.items()
            )
            + "}"
        )
    return value(rng)


def metadata(rng, world, seq):
    """Tags, names and metadata that are read again elsewhere."""
    mine, text = world.mine, rng.choice(TEXTS)
    bodies = {
        "create_session": {
            "tags": [text] * rng.choice([1, 100, 101]),
            "display_name": text[:500],
            "project_id": text[:200] or None,
            "user_metadata": {text: text, "x": world.secret},
        },
        "save_weights": {"model_id": mine["model"], "seq_id": seq, "path": text, "user_metadata": {"x": text}},
        "copy_weights": {"source_path": mine["path"], "destination_project_id": text[:200] or "x"},
        "sessions/search": {"display_name": text[:500] or "x", "user_metadata": {text: text}, "project_ids": [text]},
        f"sessions/{mine['session']}/project": {"project_id": text[:200] or "x"},
        f"sessions/{world.fresh(seq)}/finish": {"reason": {"type": "errored"}, "detail": text + world.secret},
    }
    route = rng.choice(sorted(bodies))
    method = "PUT" if route.endswith("project") else "POST"
    body = json.dumps(bodies[route]).encode()
    looks = [
        "sessions?limit=500",
        "training_runs?limit=500",
        "checkpoints?limit=500",
        "audit",
        f"sessions/{mine['session']}",
    ]
    asked = [Request("GET", f"/api/v1/{look}") for look in rng.sample(looks, 2)]
    sent = Sent([rendered(Request(method, f"/api/v1/{route}", body), world.key)])
    return [sent, *(Sent([rendered(each, world.key)], statuses=frozenset({200})) for each in asked)]


def odd_protobuf(rng, world, seq):
    """A pass whose bytes are changed, nested, cut or repeated."""
    whole = pass_of(world.mine["model"], seq, count=rng.choice([1, 3, 200]))
    data = bytearray(whole)
    which = rng.randrange(7)
    if which == 0:
        for _ in range(rng.choice([1, 3, 30])):
            data[rng.randrange(len(data))] = rng.randrange(256)
    elif which == 1:
        del data[rng.randrange(len(data)) :]
    elif which == 2:
        data += b"\x1a\x00" * rng.choice([10, 5000, 70_000, 1_000_000])
    elif which == 3:
        data += bytes([rng.choice([0x0B, 0x0C, 0x07, 0x7A, 0x00])]) + b"\xff" * rng.choice([1, 9, 10, 11])
    elif which == 4:
        data += b"\x0a\x03abc" * rng.choice([1, 1000])
    elif which == 5:
        data = bytearray(rng.randbytes(rng.choice([1, 100, 50_000])))
    else:
        shape = b"".join(
            _varint(rng.choice([2**40, 2**63 - 1, 2**64 - 1, 1, 0])) for _ in range(rng.choice([1, 8, 9, 5000]))
        )
        tensor = b"\x12" + _varint(len(shape)) + shape + b"\x18\x01"
        entry = b"\x0a\x01w\x12" + _varint(len(tensor)) + tensor
        datum = b"\x12" + _varint(len(entry)) + entry
        data += b"\x1a" + _varint(len(datum)) + datum
    request = Request("POST", "/api/v1/forward_backward", bytes(data), [("Content-Type", "application/x-protobuf")])
    if rng.random() < 0.3:
        request.body = zstandard.compress(request.body)
        request.headers.append(("Content-Encoding", "zstd"))
    return [Sent([rendered(request, world.key)])]


def _varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def compressed(rng, world, seq):
    """Bytes that are many when they are unpacked, or are not what their coding says."""
    request = drawn(rng, world.mine, seq, posts=True)
    size = rng.choice([1 << 15, 1 << 20, (1 << 20) + 1, 1 << 26, 1 << 28])
    forms = [
        lambda: zstandard.compress(bytes(size)),
        lambda: zstandard.compress(b" " * size + request.body),
        lambda: zstandard.compress(zstandard.compress(request.body)),
        lambda: zstandard.compress(request.body)[:-3],
        lambda: zstandard.compress(request.body) * 3,
        lambda: zstandard.compress(request.body) + b"garbage",
        lambda: b"\x50\x2a\x4d\x18" + (1 << 30).to_bytes(4, "little"),
        lambda: b"\x28\xb5\x2f\xfd" + rng.randbytes(30),
        lambda: request.body,
        lambda: b"",
    ]
    request.body = rng.choice(forms)()
    coding = "zstd" if rng.random() < 0.85 else rng.choice(["gzip", "br", "zstd, zstd", "deflate"])
    return [Sent([rendered(request, world.key, [("Content-Encoding", coding)])])]


def odd_id(rng, world, seq):
    """An id of a path that is none, or that leads elsewhere."""
    odd = rng.choice(
        [
            *(quote(each.encode("utf-8", "surrogatepass"), safe="") for each in TEXTS if len(each) < 3000),
            "..%2f" * 20,
            "%00",
            "%ff%fe",
            "%25252e",
            "a" * 7000,
            f"{world.mine['model']}%2f..%2f{world.mine['model']}",
            "%",
            "%zz",
            "\xe9",
        ]
    )
    routes = [
        ("GET", f"training_runs/{odd}"),
        ("GET", f"training_runs/{odd}/checkpoints"),
        ("DELETE", f"training_runs/{world.mine['model']}/checkpoints/weights/{odd}"),
        ("POST", f"training_runs/{odd}/checkpoints/{odd}/x/publish"),
        ("PUT", f"training_runs/{world.mine['model']}/checkpoints/{odd}/x/ttl"),
        ("GET", f"training_runs/{odd}/checkpoints/external_weights/{odd}/external_weights_urls"),
        ("GET", f"sessions/{odd}"),
        ("PUT", f"sessions/{odd}/project"),
        ("POST", f"sessions/{odd}/finish"),
        ("GET", f"sessions/{odd}/trace_export"),
        ("GET", f"samplers/{odd}"),
        ("GET", f"download?token={odd}"),
        ("GET", f"audit?day={odd}"),
        ("GET", f"checkpoints?limit={odd}&offset={odd}"),
        ("GET", odd),
    ]
    method, path = rng.choice(routes)
    body = b'{"ttl_seconds": 7200, "project_id": "p"}' if method == "PUT" else b""
    return [Sent([rendered(Request(method, f"/api/v1/{path}", body), world.key)], whole=False)]


def anothers(rng, world, seq):
    """What belongs to another tenant, everywhere where something can be named: it looks as if it did not exist."""
    theirs = {**world.mine, **{name: world.theirs[name] for name in ("session", "model", "sampler", "path")}}
    request = drawn(rng, theirs, seq)
    about = request.path.encode() + request.body
    names = any(world.theirs[name].encode() in about for name in ("session", "model", "sampler", "path"))
    if rng.random() < 0.4:
        run, method = theirs["model"], rng.choice(["DELETE", "POST", "PUT", "GET"])
        path = f"/api/v1/training_runs/{run}/checkpoints/weights/p" + {"POST": "/publish", "PUT": "/ttl"}.get(
            method, ""
        )
        request, names = Request(method, path, b'{"ttl_seconds": 7200}'), True
    # A cancelled request of another's, and searches and polls for it, are answered as for what does not exist.
    silent = request.path.endswith(("cancel_future", "retrieve_future"))
    statuses = frozenset({204, 410}) if silent else REFUSED
    return [Sent([rendered(request, world.key)], statuses=statuses if names else frozenset())]


def links(rng, world, seq):
    """A link that was changed, or whose token is used as a key."""
    token = world.link
    head, claims, signature = token.split(".")
    forms = [
        token[:-1],
        token + "A",
        f"{head}.{claims}.",
        f"{head}.{claims}.{signature[::-1]}",
        f"eyJhbGciOiJub25lIn0.{claims}.",
        f"{head}.{claims[:-4]}AAAA.{signature}",
        world.token,
        quote(token + "\0"),
        token + "&token=" + token,
        "x" * 9000,
        "",
    ]
    one = rng.choice(forms)
    if rng.random() < 0.3:
        return [Sent([rendered(Request("GET", "/api/v1/sessions"), token)], statuses=frozenset({401}))]
    good = one.startswith(token + "&")
    path = f"/api/v1/download?token={one}"
    return [
        Sent(
            [rendered(Request(rng.choice(["GET", "POST"] if not good else ["GET"]), path), "x")],
            statuses=frozenset({200} if good else {400, 403, 404, 405}),
        )
    ]


def queries(rng, world, seq):
    """Numbers, days and scopes of a query that are none."""
    path = rng.choice(GETS).format(**world.mine)
    names = (
        "limit",
        "offset",
        "project_id",
        "access_scope",
        "day",
        "event_type",
        "starting_on",
        "ending_before",
        "token",
    )
    texts = [
        *(each for each in TEXTS if len(each) < 3000),
        *NUMBERS,
        "2026-11-25",
        "9999-12-31",
        "0001-01-01",
        "-1",
        "٣",
    ]
    pairs = [
        f"{rng.choice(names)}={quote(rng.choice(texts).encode('utf-8', 'surrogatepass'))}"
        for _ in range(rng.randint(1, 6))
    ]
    return [Sent([rendered(Request("GET", f"/api/v1/{path}?{'&'.join(pairs)}"), world.key)], whole=False)]


ATTACKS = (odd_json, metadata, odd_protobuf, compressed, odd_id, anothers, links, queries)

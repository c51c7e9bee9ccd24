"""AdmissionReviews whose JSON or whose members are hostile; the objects themselves are the business of `drawing`."""

from __future__ import annotations

import json

from tests.fuzz.wire.attacks import PATHS, Attack, post

__all__ = ["WAYS", "plain", "uid_of"]

_JOB = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": "llama", "namespace": "team-a"},
    "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 2, "command": ["torchrun", "x.py"]}},
}
_GVK = {"group": "trainer.kubeflow.org", "version": "v1alpha1", "kind": "TrainJob"}
_NUMBERS = (
    *(
        b"NaN",
        b"Infinity",
        b"-Infinity",
        b"1" * 5000,
        b"1e999",
        b"-0",
        b"0x10",
        b"01",
        b"1e-999",
        b"9" * 400,
        b"1_0",
        b".5",
    ),
    *(b"1.7976931348623157e309", b"-" + b"9" * 19, b"18446744073709551616"),
)
_TEXTS = (
    *(
        b'"\\ud800"',
        b'"\\udc00\\ud800"',
        b'"\\u0000"',
        b'"\xff"',
        b'"\xed\xa0\x80"',
        b'"\xc0\xaf"',
        b'"\\x41"',
        b'"\n"',
    ),
    *('"\u202e\u2028\u2029\ufeff"'.encode(), b'"\\u001b[31m"', b'"' + b"\\u0000" * 5000 + b'"', b"'a'", b'"\\'),
)
_NESTED = (b"[" * 600 + b"]" * 600, b"[" * 100_000, b'{"a":' * 5000 + b"1" + b"}" * 5000, b"[" * 149 + b"]" * 149)
_ODD = (
    None,
    True,
    0,
    -1,
    1.5,
    2**63,
    "",
    " ",
    "a\nb",
    "\x00",
    "\u202e",
    "x" * 300,
    "x" * 100_000,
    [],
    ["a"],
    [[]],
    {},
    {"a": {}},
)
_ENCODINGS = ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig", "utf-7", "cp037", "latin-1")
_OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT", "create", "PATCH", "", "CREATE\n", "\u0421REATE")


def uid_of(random):
    """A uid as the API server makes them."""
    return f"{random.getrandbits(32):08x}-0000-4000-8000-{random.getrandbits(48):012x}"


def plain(uid, kind="TrainJob", operation="CREATE", **members):
    """A review as the API server writes it."""
    request = {
        "uid": uid,
        "kind": {**_GVK, "kind": kind},
        "resource": {"group": _GVK["group"], "version": "v1alpha1", "resource": "trainjobs"},
        "name": "llama",
        "namespace": "team-a",
        "operation": operation,
        "userInfo": {"username": "ada", "groups": ["system:authenticated"]},
        "object": _JOB,
        "oldObject": _JOB if operation == "UPDATE" else None,
        "dryRun": False,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {**request, **members}}


def _sent(review):
    return json.dumps(review, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _path(random):
    return random.choice((PATHS[0], PATHS[2]))


def _tokens(random, secret, _):
    """A token within the object that is JSON of another kind, or none."""
    uid, odd = uid_of(random), random.choice((*_NUMBERS, *_TEXTS, *_NESTED))
    where = random.choice(('"numNodes":2', '"name":"llama"', '"dryRun":false', '"options":{'))
    body = _sent(plain(uid)).replace(where.encode(), where.split(":")[0].encode() + b":" + odd, 1)
    due = (uid,) if where == '"numNodes":2' else ()  # who sent it stands before the object
    return Attack(f"token {odd[:16]!r} for {where}", (post(_path(random), body),), reviews=(uid,), recorded=due)


def _members(random, secret, _):
    """A member of the request that has another type or length."""
    uid, odd = uid_of(random), random.choice(_ODD)
    names = (
        "kind",
        "resource",
        "name",
        "namespace",
        "userInfo",
        "object",
        "oldObject",
        "dryRun",
        "options",
        "subResource",
    )
    name = random.choice((*names, "requestKind", "requestSubResource", "requestResource"))
    review = plain(uid, **{name: odd})
    if name == "userInfo" and random.random() < 0.7:
        who = {"username": random.choice(("a\nb", secret, "x" * 100_000, "\u202e", {"a": 1}, None)), "uid": odd}
        who |= {"groups": random.choice((["g"] * 50_000, [["g"]], "g", [secret], [None, 1, {}], ["x" * 100_000]))}
        review["request"]["userInfo"] = {**who, "extra": {secret: [secret]}}
    due = (uid,) if name not in ("kind", "object") else ()
    return Attack(f"member {name}", (post(_path(random), _sent(review)),), reviews=(uid,), recorded=due)


def _operations(random, secret, _):
    """Another operation, version, kind or subresource."""
    uid, operation = uid_of(random), random.choice(_OPERATIONS)
    kind = random.choice(("TrainJob", "TrainJob", "JobSet", "Pod", "", "TrainJob\n", secret))
    old = random.choice((None, _JOB, {}, {"a": secret}))
    members = {"oldObject": old, "subResource": random.choice(("", "status", "scale", "../..", "x" * 1000))}
    if operation in ("DELETE", "CONNECT"):
        members["object"] = random.choice((None, None, _JOB))
    review = plain(uid, kind, operation, **members)
    if random.random() < 0.2:
        review["apiVersion"] = random.choice(
            ("admission.k8s.io/v1beta1", "v1", "", None, 1, ["a"], "x" * 100_000, secret)
        )
    return Attack(f"{operation!r} of {kind[:9]!r}", (post(random.choice(PATHS), _sent(review)),), reviews=(uid,))


def _uids(random, secret, _):
    """A uid that is none, or one that no header, line or record should trust."""
    odd = random.choice(
        (
            None,
            0,
            1,
            True,
            [],
            {},
            "",
            "a\r\nb: c",
            "\x00",
            "x" * 10_000,
            "x" * 2_000_000,
            "\u202e\u2028",
            "<b>",
            "../..",
        )
    )
    review = plain(odd)
    if random.random() < 0.2:
        review["request"].pop("uid")
    known = (odd,) if isinstance(odd, str) and odd and "uid" in review["request"] and len(odd) < 1000 else ()
    return Attack(f"uid {str(odd)[:12]!r}", (post(_path(random), _sent(review)),), reviews=known)


def _shapes(random, secret, _):
    """A body that is no review, with a secret that no answer may repeat."""
    body = random.choice(
        (
            b"",
            b"{",
            b"null",
            b"[]",
            b'"' + secret.encode() + b'"',
            _sent({"kind": secret}),
            _sent({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": None}),
            _sent({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": {"uid": "a"}}),
            b"apiVersion: admission.k8s.io/v1\nkind: AdmissionReview\ntoken: " + secret.encode(),
            b"{}" * 1000,
            b" " * 100_000,
            b"[" + b"1," * 500_000 + b"1]",
            b"[" + b'"' + b'","' * 500_000 + b'"]',
            b'{"kind":"AdmissionReview","request":' * 1000,
        )
    )
    return Attack(f"shape {body[:12]!r}", (post(_path(random), body),))


def _doubles(random, secret, _):
    """Members that are there twice; the last one counts, as in the API server."""
    uid, other = uid_of(random), uid_of(random)
    body = _sent(plain(uid))
    first = b'"request":{"uid":"%s",' % other.encode()
    body = body.replace(
        b'"request":{', random.choice((first, b'"request":{},"request":{', b'"request":{"object":[],')), 1
    )
    return Attack("doubled members", (post(_path(random), body),), reviews=(uid,), recorded=(uid,))


def _encodings(random, secret, _):
    uid, encoding = uid_of(random), random.choice(_ENCODINGS)
    body = _sent(plain(uid)).decode().encode(encoding)
    if random.random() < 0.3:
        body = body[: random.randint(1, len(body))]
    charset = b"application/json; charset=" + encoding.encode()
    return Attack(f"encoding {encoding}", (post(_path(random), body, (b"X-Charset", charset)),))


def _large(random, secret, _):
    """A large review, which is evaluated on a thread, and several of them on one connection."""
    uids = [uid_of(random) for _ in range(random.choice((1, 2, 5)))]
    notes = {"notes": random.choice(("x", "\\", '"', "\u00fc", "[", ",", secret + " ")) * 40_000}
    job = {**_JOB, "metadata": {**_JOB["metadata"], "annotations": notes}}
    sent = tuple(post(_path(random), _sent(plain(uid, object=job))) for uid in uids)
    return Attack("large", sent, requests=len(uids), awaited=len(uids), reviews=tuple(uids), recorded=tuple(uids))


def _pipelined(random, secret, review):
    """Several good reviews at once, which are answered in order."""
    made = [review() for _ in range(random.choice((2, 5, 30)))]
    uids = tuple(uid for _, uid in made)
    sent = b"".join(post("/mutate/trainjobs", body) for body, _ in made)
    return Attack("reviews at once", (sent,), requests=len(uids), awaited=len(uids), reviews=uids, recorded=uids)


def _gone(random, secret, review):
    """The client goes before it reads the answer."""
    body, _ = review()
    return Attack("gone before the answer", (post(_path(random), body),), ends=random.choice(("cuts", "resets")))


WAYS = (
    _tokens,
    _tokens,
    _members,
    _members,
    _operations,
    _uids,
    _shapes,
    _doubles,
    _encodings,
    _large,
    _pipelined,
    _gone,
)

"""A Secret as helm sends it, in Kubernetes' protobuf: only as much of that as a release needs.

The layout is that of `k8s.io/api/core/v1/generated.proto`, in the envelope `runtime.Unknown` behind four magic bytes.
"""

from __future__ import annotations

import base64

__all__ = ["MAGIC", "secret"]

MAGIC = b"k8s\x00"


def secret(sent):
    """Return the Secret as a document."""
    (envelope,) = _fields(sent.removeprefix(MAGIC), 2)
    (metadata,) = _fields(envelope, 1)
    (name,), labels = _fields(metadata, 1), dict(_pair(each) for each in _fields(metadata, 11))
    data = dict(_pair(each) for each in _fields(envelope, 2))
    (kind,) = _fields(envelope, 3)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name.decode(), "labels": {key: each.decode() for key, each in labels.items()}},
        "type": kind.decode(),
        "data": {key: base64.b64encode(each).decode() for key, each in data.items()},
    }


def _pair(entry):
    (key,), (value,) = _fields(entry, 1), _fields(entry, 2)
    return key.decode(), value


def _fields(message, wanted):
    """The contents of all fields of one number; those of other types than bytes are passed over."""
    out, at = [], 0
    while at < len(message):
        tag, at = _varint(message, at)
        length, at = _varint(message, at)
        if tag & 7 == 2:  # length-delimited
            if tag >> 3 == wanted:
                out.append(message[at : at + length])
            at += length
    return out


def _varint(message, at):
    value, shift = 0, 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at

"""Server-side apply and kubectl's two other ways to send a file again, as small functions.

Merge keys are those of the CRDs of Trainer v2.3.0 and JobSet v0.12.0; lists without one are atomic. Fields that the
applier owned before and leaves out now are removed; fields that it never owned survive.
"""

from __future__ import annotations

import copy

_KEYS = {
    "runtimePatches": ("manager",),
    "volumeMounts": ("mountPath",),
    "ports": ("containerPort", "protocol"),
    **dict.fromkeys(
        (
            "replicatedJobs",
            "containers",
            "initContainers",
            "env",
            "volumes",
            "resourceClaims",
            "claims",
            "imagePullSecrets",
            "schedulingGates",
        ),
        ("name",),
    ),
}
_ATOMIC_MAPS = frozenset({"nodeSelector"})


def apply(live, owned, sent, member=""):
    """Return `live` after a server-side apply of `sent` by the owner of what is in `owned` (its last apply).

    Args:
        live: the stored value.
        owned: what the same manager applied before; None for nothing.
        sent: what it applies now.
        member: the name under which these values stand.
    """
    if isinstance(live, dict) and isinstance(sent, dict) and member not in _ATOMIC_MAPS:
        return _apply_object(live, owned if isinstance(owned, dict) else {}, sent)
    if isinstance(live, list) and isinstance(sent, list) and member in _KEYS:
        return _apply_list(live, owned if isinstance(owned, list) else [], sent, member)
    return copy.deepcopy(sent)


def _apply_object(live, owned, sent):
    merged = {key: copy.deepcopy(value) for key, value in live.items() if key in sent or key not in owned}
    for key, value in sent.items():
        merged[key] = apply(live[key], owned.get(key), value, key) if key in live else copy.deepcopy(value)
    return merged


def _apply_list(live, owned, sent, member):
    now, before, new = (_by_key(entries, member) for entries in (live, owned, sent))
    kept = {key: entry for key, entry in now.items() if key in new or key not in before}
    merged = {key: apply(entry, before.get(key), new[key]) if key in new else entry for key, entry in kept.items()}
    merged |= {key: copy.deepcopy(entry) for key, entry in new.items() if key not in merged}
    return [merged[key] for key in _order([key for key in now if key in merged], list(new))]


def _order(live, sent):
    """Sent entries in the order sent, the others where they stood among them (structured-merge-diff v4)."""
    order, rest = [], list(sent)
    for key in live:
        while key in rest:
            order.append(rest.pop(0))
        if key not in order:
            order.append(key)
    return order + rest


def _by_key(entries, member):
    return {tuple(entry.get(key) for key in _KEYS[member]): entry for entry in entries}


def reapply_server_side(stored, file):
    """`kubectl apply --server-side` of the file that the object was created from."""
    return apply(stored, file, file)


def reapply_client_side(stored, file):
    """`kubectl apply` of an unchanged file: for a custom resource lists are replaced where they differ."""
    if not isinstance(stored, dict) or not isinstance(file, dict):
        return copy.deepcopy(file)
    merged = copy.deepcopy(stored)
    for key, value in file.items():
        merged[key] = reapply_client_side(stored[key], value) if key in stored else copy.deepcopy(value)
    return merged


def replace(stored, file):
    """`kubectl replace`: the file, with what the API server itself keeps in metadata."""
    metadata = {key: stored["metadata"][key] for key in ("uid", "resourceVersion") if key in stored["metadata"]}
    return copy.deepcopy({**file, "metadata": {**file["metadata"], **metadata}})

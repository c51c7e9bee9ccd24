"""Changes of a document: each takes one place or one part, and says what it did."""

from __future__ import annotations

import json

from tests.fuzz import cases, skeletons, values

__all__ = ["change", "places"]

_MOST = 6000
_COUNTS = (
    "replicas",
    "parallelism",
    "completions",
    "numNodes",
    "numProcPerNode",
    "containerPort",
    "count",
    "podIndex",
    "jobIndex",
)
_MANY = (2, 3, 5, 20, 60, 150, 300, 1000)
_LARGE = 120_000


def places(document):
    """(holder, key) of every value inside a document, in its order; without recursion, at most 6,000."""
    found, waiting = [], [document]
    while waiting and len(found) < _MOST:
        node = waiting.pop()
        inner = node if type(node) is dict else range(len(node))
        found += [(node, key) for key in inner]
        children = node.values() if type(node) is dict else node
        waiting += [child for child in children if type(child) is dict or type(child) is list]
    return found


def change(random, document, room=_LARGE):
    """Change a document in place; return what was done.

    Args:
        random: of the case.
        document: a job or a document of the cluster.
        room: bytes that it may grow to by repeats.
    """
    every = places(document)
    if not every:
        return "nothing"
    how = random.choices(list(_WAYS), weights=list(_WAYS.values()))[0]
    return f"{how.__name__.strip('_')}: {how(random, document, every, room)}"


def _pick(random, every, *names):
    """A place, by preference one whose key is among `names`."""
    named = [each for each in every if each[1] in names]
    return random.choice(named or every)


def _swap_type(random, document, every, room):
    holder, key = random.choice(every)
    holder[key] = values.tree(random)
    return key


def _hostile(random, document, every, room):
    holder, key = random.choice(every)
    holder[key] = values.anything(random, holder[key])
    return key


def _delete(random, document, every, room):
    holder, key = random.choice(every)
    del holder[key]
    return key


def _null(random, document, every, room):
    holder, key = random.choice(every)
    holder[key] = random.choice((None, {}, [], "", 0, False))
    return key


def _rename(random, document, every, room):
    holder, key = random.choice([each for each in every if isinstance(each[0], dict)])
    holder[random.choice((key.upper(), f"{key} ", key[:-1], f"{key}s", values.text(random)[:300], ""))] = holder.pop(
        key
    )
    return key


def _repeat(random, document, every, room):
    lists = [(holder, key) for holder, key in every if isinstance(holder[key], list) and holder[key]]
    if not lists:
        return ""
    holder, key = random.choice(lists)
    entry = random.choice(holder[key])
    size = len(json.dumps(entry)) + 1
    times = min(random.choice(_MANY), max(1, (room - len(json.dumps(document))) // size))
    named = isinstance(entry, dict) and isinstance(entry.get("name"), str) and random.random() < 0.7
    copies = [cases.copied(entry) for _ in range(max(0, times))]
    for number, each in enumerate(copies if named else ()):
        each["name"] = f"{each['name'][:40]}-{number}"
    holder[key] = [*holder[key], *copies]
    return f"{key} {times}"


def _cross(random, document, every, room):
    """Give a member the value that another job has there."""
    other = skeletons.draw(random)
    donor = random.choice([*other["subjects"], *other["cluster"]])
    theirs = {key: holder[key] for holder, key in places(donor) if isinstance(key, str)}
    shared = [(holder, key) for holder, key in every if key in theirs]
    if not shared:
        return ""
    holder, key = random.choice(shared)
    holder[key] = cases.copied(theirs[key])
    return f"{key} of {other['name']}"


def _exchange(random, document, every, room):
    (one, first), (two, second) = random.choice(every), random.choice(every)
    value = cases.copied(two[second])
    two[second] = cases.copied(one[first])
    one[first] = value
    return f"{first}, {second}"


def _words(random, document, every, room):
    holder, key = _pick(random, every, "command", "args")
    if key not in ("command", "args"):
        containers = [each[key] for each, key in every if isinstance(each[key], dict) and "image" in each[key]]
        if not containers:
            return ""
        holder, key = random.choice(containers), random.choice(("command", "args"))
    given = holder[key] if isinstance(holder.get(key), list) else []
    holder[key] = random.choice((values.command(random), [*given, values.word(random)], [values.word(random), *given]))
    return key


def _env(random, document, every, room):
    holder = random.choice(
        [*(each for each, key in every if key in ("image", "command", "numNodes") and isinstance(each, dict)), {}]
    )
    given = holder.setdefault("env", [])
    if isinstance(given, list):
        given.insert(random.randint(0, len(given)), values.entry(random))
    return ""


def _note(random, document, every, room):
    key = random.choice(list(values.ANNOTATIONS))
    metadata = [holder[name] for holder, name in every if name == "metadata" and isinstance(holder[name], dict)]
    kept = random.choice([document.setdefault("metadata", {}), *metadata])
    if not isinstance(kept, dict):
        return ""
    kind = (
        "labels"
        if ".org" in key or key in ("muster.dev/role", "muster.dev/mode", "muster.dev/profile")
        else "annotations"
    )
    kind = kind if random.random() < 0.9 else random.choice(("labels", "annotations"))
    kept = kept.setdefault(kind, {})
    if isinstance(kept, dict):
        kept[key] = values.note(random, key)
    return key


def _count(random, document, every, room):
    holder, key = _pick(random, every, *_COUNTS)
    holder[key] = values.number(random) if random.random() < 0.8 else values.count(random)
    return key


def _devices(random, document, every, room):
    holders = [
        holder[key]
        for holder, key in every
        if key in ("resources", "resourcesPerNode") and isinstance(holder[key], dict)
    ]
    holder = random.choice(holders) if holders else {}
    part = holder.setdefault(random.choice(("limits", "requests", "claims")), {})
    name = random.choice(
        (
            "nvidia.com/gpu",
            "amd.com/gpu",
            "cpu",
            "memory",
            "nvidia.com/mig-1g.10gb",
            "hugepages-2Mi",
            values.text(random)[:300],
        )
    )
    if isinstance(part, dict):
        part[name] = random.choice((values.count(random), values.number(random), values.tree(random)))
    return name[:40]


def _pod(random, document, every, room):
    pods = [holder for holder, key in every if key == "containers" and isinstance(holder, dict)]
    if not pods:
        return ""
    key = random.choice(list(values.PODS))
    value = cases.copied(values.PODS[key])
    if random.random() < 0.3 and isinstance(value, (dict, list)):
        holder, member = random.choice(places(value))
        holder[member] = values.tree(random)
    random.choice(pods)[key] = value
    return key


def _owner(random, document, every, room):
    reference = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "name": "llama",
        "uid": "u",
        "controller": True,
    }
    if random.random() < 0.5:
        reference[random.choice(list(reference))] = values.tree(random)
    metadata = document.setdefault("metadata", {})
    if isinstance(metadata, dict):
        metadata["ownerReferences"] = [reference] * random.choice((1, 1, 2, 50))
    return ""


def _patches(random, document, every, room):
    spec = document.get("spec")
    if not isinstance(spec, dict):
        return ""
    pod = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {key: cases.copied(values.PODS[key]) for key in random.sample(list(values.PODS), 2)},
    }
    pod["spec"]["containers"] = [{"name": "node", "env": [values.entry(random)]}]
    inner = {"spec": {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": pod}}}]}}
    entry = {
        "manager": values.text(random)[:300] if random.random() < 0.3 else "team/x",
        "trainingRuntimeSpec": {"template": inner},
    }
    given = spec.get("runtimePatches")
    most = 1 + max(0, room - len(json.dumps(document))) // len(json.dumps(entry))
    times = min(random.choice((1, 1, 2, 100)), most)
    spec["runtimePatches"] = [*(given if isinstance(given, list) else []), *[entry] * times]
    return ""


def _samplers(random, document, every, room):
    """Make more roles of a replicated job, call it otherwise, or start another server in it."""
    lists = [holder[key] for holder, key in every if key == "replicatedJobs" and isinstance(holder[key], list)]
    parts = [each for each in random.choice(lists) if isinstance(each, dict)] if lists else []
    if not parts:
        return ""
    part = cases.copied(random.choice(parts))
    named = [
        (holder, key)
        for holder, key in places(part)
        if key in ("command", "labels") and isinstance(holder[key], (list, dict))
    ]
    for holder, key in named:
        if random.random() < 0.5:
            holder[key] = _role(random) if key == "labels" else _server(random)
    count = random.choice((1, 1, 2, 16, 17, 33, 60))
    room -= len(json.dumps(document))
    few = [cases.copied(part) for _ in range(min(count, 1 + max(0, room) // len(json.dumps(part))))]
    for number, each in enumerate(few):
        each["name"] = f"{random.choice(_CALLED)}-{number}" if random.random() < 0.9 else values.text(random)[:300]
    into = random.choice(lists)
    at = random.randint(0, len(into))
    into[at:at] = few
    return len(few)


_CALLED = ("sampler", "rollout", "generator", "judge", "reward", "node", "trainer", "worker", "x")


def _role(random):
    role = random.choice(("sampler", "trainer", "other", None, values.text(random)[:300]))
    return {"muster.dev/role": role} if random.random() < 0.7 else {"trainer.kubeflow.org/framework": "vllm"}


def _server(random):
    if random.random() < 0.3:
        return values.command(random)
    return ["vllm", "serve", *(values.word(random) for _ in range(random.randint(0, 6)))]


def _deep(random, document, every, room):
    holder, key = random.choice(every)
    holder[key] = values.deep(random)
    return key


_WAYS = {
    _swap_type: 2,
    _hostile: 12,
    _delete: 5,
    _null: 3,
    _rename: 3,
    _repeat: 8,
    _cross: 14,
    _exchange: 2,
    _words: 14,
    _env: 7,
    _note: 9,
    _count: 6,
    _devices: 6,
    _pod: 8,
    _owner: 2,
    _patches: 3,
    _samplers: 4,
    _deep: 1,
}

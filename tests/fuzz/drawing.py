"""Draws a case by its number: a world, an operation, a policy, and changes of everything."""

from __future__ import annotations

import json
import random as randoms

import orjson

from muster.webhook.admission import decisions, reviews
from tests.fuzz import cases, mutations, planting, skeletons, values
from tests.support import admissions, jobs

__all__ = ["draw"]

_CHANGES = (0, 1, 1, 1, 2, 2, 3, 4, 6, 10)
# Bytes to which a document may grow by repeats. Large ones cost most: when two of three cases could have more than
# 20 kB, the 9 % that had as much took 38 % of all time.
_ROOMS = (10_000,) * 8 + (20_000,) * 6 + (60_000, 120_000)
_MODES = ("enforce",) * 6 + ("warn", "audit", "off")
_FRAMEWORKS = ("torch", "trl", "torchtune", "vllm", "default", "jax")


def draw(seed, number):
    """The case of a number; two numbers have nothing in common but the seed."""
    random = randoms.Random(f"{seed}/{number}")
    world = skeletons.draw(random)
    subject, cluster = random.choice(world["subjects"]), world["cluster"]
    if subject["kind"] == "TrainJob" and random.random() < 0.4:
        subject, cluster = skeletons.follow(subject, cluster) or (subject, cluster)
    subject["metadata"].setdefault("namespace", jobs.NAMESPACE)
    policy, namespace = _policy(random), subject["metadata"]["namespace"]
    label, labelled = _namespace(random, namespace)
    case = cases.Case(subject["kind"], {}, [*cluster, *labelled], policy, how=[f"{seed}/{number}", world["name"]])
    if random.random() < 0.9:  # a namespace that is told by a hostile document may have any mode
        case.mode = label if label in ("enforce", "warn", "audit", "off") else None
    else:
        case.how += [f"Namespace {mutations.change(random, each)}" for each in labelled]
    old = None
    if random.random() < 0.3:
        old = _stored(case, subject)
        subject = _next(random, old, subject)
        case.how.append("UPDATE")
    _hurt(random, case, subject, old)
    case.review = _review(random, case, subject, old, namespace)
    if random.random() < 0.01:
        case.review = _spoilt(random, case.review)
    return case


def _policy(random):
    wanted = {"mode": random.choice(_MODES), "failure": random.choice(("deny", "deny", "allow"))}
    wanted |= {"profiles": random.random() < 0.6, "roles": random.random() < 0.5}
    if random.random() < 0.15:
        wanted["modes"] = {random.choice(_FRAMEWORKS): random.choice(_MODES)}
    if wanted["profiles"] and random.random() < 0.2:
        wanted["profile"] = {random.choice(_FRAMEWORKS): random.choice(("quad", "seats", "plain"))}
    return wanted


def _namespace(random, namespace):
    label = random.choice((*[None] * 6, "enforce", "warn", "audit", "off", "of", values.text(random)[:400]))
    return label, [jobs.make_namespace(label, namespace)] if label is not None or random.random() < 0.5 else []


def _stored(case, subject):
    """The job as it is stored after a CREATE that Muster answered, before anything hostile."""
    body = orjson.dumps(admissions.make_review(subject))
    reader = admissions.make_reader()
    for each in case.cluster:
        try:
            reader.add(each)
        except ValueError:
            continue
    try:
        return cases.copied(
            dict(decisions.evaluate(reviews.parse(body, "mutate"), reader, cases.policy_of(case.policy)).document)
        )
    except Exception:  # noqa: BLE001 - the same case at CREATE will tell
        return cases.copied(subject)


def _next(random, old, first):
    """What comes at an UPDATE: the stored job, or the file from before, again."""
    new = cases.copied(random.choice((old, first)))
    if isinstance(new.get("spec"), dict) and random.random() < 0.5:
        new["spec"]["suspend"] = random.choice((True, False))
    if random.random() < 0.05:
        new["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z"
    return new


def _hurt(random, case, subject, old):
    """Change the job, what is about it, and what was stored; plant secrets."""
    room = 900_000 if random.random() < 0.003 else random.choice(_ROOMS)
    for _ in range(random.choice(_CHANGES)):
        which = random.random()
        target, name = subject, "job"
        if old is not None and which < 0.25:
            target, name = old, "old"
        elif which < 0.45 and case.cluster:
            target = random.choice([each for each in case.cluster if each.get("kind") != "Namespace"] or [subject])
            kept = {member: target.get(member) for member in ("apiVersion", "kind")}
            case.how.append(f"{kept['kind']} {_in_snapshot(random, target, room)}")
            target |= kept
            continue
        case.how.append(f"{name} {mutations.change(random, target, room)}")
    if old is not None and random.random() < 0.5:
        case.how.append(_memory(random, random.choice((old, subject))))
    if random.random() < 0.35 and isinstance(subject.get("metadata"), dict):
        for _ in range(random.choice((1, 1, 2, 3))):
            _plant(random, case, subject)


def _plant(random, case, subject):
    """Plant a secret in the job, or in a runtime that may govern it."""
    runtimes = [each for each in case.cluster if str(each.get("kind")).endswith("TrainingRuntime")]
    there = random.choice(runtimes) if runtimes and random.random() < 0.3 else subject
    if isinstance(there.get("metadata"), dict) and (planted := planting.plant(random, there, mutations.places(there))):
        case.planted[planted[0]] = planted[1]


def _in_snapshot(random, target, room):
    """Change a document of the cluster; of a snapshot mostly the runtime that is written in it."""
    if target.get("kind") != "ConfigMap" or random.random() < 0.2:
        return mutations.change(random, target, room)
    try:
        runtime = json.loads(target["data"]["runtime"])
        done = mutations.change(random, runtime, min(room, 60_000))
        target["data"]["runtime"] = json.dumps(runtime)
    except (KeyError, TypeError, ValueError, AttributeError):
        return mutations.change(random, target, room)
    return f"runtime {done}"


def _memory(random, document):
    """Edit what Muster noted on a job."""
    notes = document.get("metadata")
    notes = notes.get("annotations") if isinstance(notes, dict) else None
    if not isinstance(notes, dict) or not isinstance(notes.get("muster.dev/applied"), str):
        return "no memory"
    try:
        memory = json.loads(notes["muster.dev/applied"])
        every = mutations.places(memory)
        holder, key = random.choice(every)
    except (ValueError, TypeError, AttributeError, IndexError):
        return "no memory"
    if isinstance(holder, str):
        return "no memory"
    kind = random.random()
    if kind < 0.3:
        holder[key] = values.tree(random)
    elif kind < 0.5 and isinstance(holder, dict):
        holder[f"/spec/{values.text(random)[:200]}"] = holder.pop(key)
    elif kind < 0.7 and isinstance(holder, dict):
        holder |= {f"/spec/replicatedJobs/{n}/name": "-" for n in range(random.choice((1, 300, 3000)))}
    else:
        del holder[key]
    notes["muster.dev/applied"] = json.dumps(memory)
    return f"memory {key}"[:80]


def _review(random, case, subject, old, namespace):
    review = admissions.make_review({"metadata": {}}, "CREATE" if old is None else "UPDATE", kind=case.kind)
    request = review["request"]
    name = subject.get("metadata")
    name = name.get("name") if isinstance(name, dict) else None
    request |= {
        "object": subject,
        "oldObject": old,
        "namespace": namespace,
        "name": name if isinstance(name, str) else "",
    }
    request["dryRun"] = random.random() < 0.1
    if random.random() < 0.04:
        case.how.append(f"request {_bend(random, request)}")
    return review


def _bend(random, request):
    key = random.choice([each for each in request if each not in ("uid", "object")])
    if key == "namespace":
        request[key] = random.choice(("", "other", values.text(random)[:300], None, 3))
    elif key == "operation":
        request[key] = random.choice(("DELETE", "CONNECT", "create", "UPDATE", None))
    elif key == "kind":
        request[key] = random.choice(
            ({**request["kind"], "group": "example.org"}, {**request["kind"], "kind": "Pod"}, "JobSet", {})
        )
    elif random.random() < 0.3:
        del request[key]
    else:
        request[key] = values.tree(random)
    return key


def _spoilt(random, review):
    """A body that is not quite a review."""
    text = cases.body_of(review).decode("utf-8", "replace")
    at = random.randint(0, len(text))
    return random.choice(
        (
            text[:at],
            text[:at] + random.choice('"{}[],:x0') + text[at:],
            text.replace('"request"', '"Request"', 1),
            text.replace("admission.k8s.io/v1", "admission.k8s.io/v1beta1", 1),
            f"[{text}]",
            text.replace('"object":', '"object":' + "[" * 900 + "]" * 900 + ',"o":', 1),
            "",
            "null",
        )
    )

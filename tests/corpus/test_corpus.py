"""Every job of the corpus ends as its head says, which upstream's source proves; `OPEN` names those that do not yet."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.corpus import cases

NAMES = cases.names()
ASKED = cases.refused_by_dry_runs()
OPEN = cases.still_open()
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
WORLD = "MUSTER_EXPECTED_WORLD_SIZE"


SUBJECTS = sorted({name.partition("/")[0] for name in NAMES})


@pytest.mark.parametrize("subject", SUBJECTS)
def test_the_cases_of_a_subject_end_as_their_heads_say(subject):
    mine = [name for name in NAMES if name.startswith(f"{subject}/") and name not in ASKED]
    wrong = {name: faults for name in mine if (faults := judged(name))}

    unexpected = {name: faults for name, faults in wrong.items() if name not in OPEN}
    assert not unexpected, "\n".join(f"{name}: {each}" for name, faults in unexpected.items() for each in faults)
    assert {name for name in OPEN if name.startswith(f"{subject}/")} <= set(wrong), "an open case ends rightly now"


def judged(name):
    """The faults of a case, and the texts of its findings where it has any."""
    found = cases.outcome(name)
    faults = faults_of(cases.expectation(name), found, cases.ends_of(name))
    return [*faults, *found.texts] if faults else []


@pytest.mark.parametrize("name", ASKED)
def test_of_what_an_api_server_refuses_by_itself_nothing_is_said_twice(name):
    assert not cases.outcome(name).ends & cases.LOUD


def faults_of(head, found, wanted):
    """What differs from the expectation, in words."""
    faults = [] if wanted & found.ends else [f"ends {sorted(found.ends)}, must end {sorted(wanted)}"]
    said = "\n".join(found.texts)
    faults += [f"does not say {each!r}" for each in listed(head.get("says")) if each not in said]
    faults += [f"says {each!r}" for each in listed(head.get("unsaid")) if each in said]
    if found.ends & cases.LOUD or not wanted & cases.LOUD:
        faults += [f"does not report {each}" for each in listed(head.get("reports")) if each not in found.rules]
    if found.jobsets:
        for judge in (world_faults, launch_faults, env_faults, place_faults, probe_faults):
            faults += judge(head, found)
    return faults


def world_faults(head, found):
    told = {each[WORLD] for each in cases.env_of(found) if WORLD in each}
    if "world" in head:
        wrong = told - {str(head["world"])}
        if wrong:
            yield f"{WORLD} is {sorted(wrong)}, but the launch makes {head['world']}"
    if head.get("told") and not told:
        yield f"{WORLD} is not told"


def launch_faults(head, found):
    lines = cases.launches(found)
    words = {word for line in lines for word in line}
    yield from (f"no launch holds {each!r}" for each in listed(head.get("holds")) if each not in words)
    for each in listed(head.get("lacks")):
        if any(word.startswith(each) for word in words):
            yield f"a launch holds {each!r}"
    for flag, value in (head.get("wins") or {}).items():
        last = {last_value(line, flag) for line in lines} - {None}
        if last != {str(value)}:
            yield f"{flag} is {sorted(last)} at last, not {value}"


def last_value(line, flag):
    """The value of a flag where it stands last; None where it does not stand."""
    value = None
    for number, word in enumerate(line):
        if word == flag and number + 1 < len(line):
            value = line[number + 1]
        elif word.startswith(f"{flag}="):
            value = word.partition("=")[2]
    return value


def env_faults(head, found):
    for name, value in (head.get("env") or {}).items():
        values = [each[name] for each in cases.env_of(found) if name in each]
        if value == "absent":
            if values:
                yield f"env {name} is {values}"
        elif not values:
            yield f"env {name} is missing"
        elif value != "present" and str(value) not in {str(each) for each in values}:
            yield f"env {name} is {values}, not {value}"


def place_faults(head, found):
    every = [container for jobset in found.jobsets for container in cases.containers(jobset)]
    into = {each["name"] for each in every if "MASTER_ADDR" in {entry["name"] for entry in each.get("env") or ()}}
    if "into" in head and into != set(head["into"]):
        yield f"MASTER_ADDR is in {sorted(into)}"
    for jobset, given in zip(found.jobsets, found.given, strict=True):
        for name in head.get("untouched") or ():
            if room(jobset, name) != room(given, name):
                yield f"{name} is changed"


def room(jobset, name):
    return [each for each in jobset["spec"]["replicatedJobs"] if each["name"] == name]


def probe_faults(head, found):
    every = [container for jobset in found.jobsets for container in cases.containers(jobset)]
    probes = [each[kind] for each in every for kind in PROBES if kind in each]
    if "probes" in head and ("http" if probes else "none") != head["probes"]:
        yield f"probes are {probes}"


def listed(value):
    return value if isinstance(value, list) else [] if value is None else [value]


def test_a_head_says_what_is_expected_and_what_proves_it():
    heads = {name: cases.expectation(name) for name in NAMES}

    assert not {name for name, head in heads.items() if head.keys() - cases.MEMBERS}
    assert not {name for name in NAMES if cases.ends_of(name) - cases.ENDS}
    assert not {name for name, head in heads.items() if not head["source"] or not head["why"]}


def test_a_head_that_allows_a_warning_or_a_refusal_names_the_rule():
    loud = [name for name in NAMES if cases.ends_of(name) & cases.LOUD and name not in OPEN]

    assert not [name for name in loud if not cases.expectation(name).get("reports")]


def test_folders_are_named_by_their_subject():
    assert not [name for name in NAMES if name[0].isdigit()]


def test_no_case_is_open_that_does_not_exist():
    assert not set(OPEN) - set(NAMES)
    assert len(OPEN) == len(set(OPEN))


def test_the_corpus_is_large_enough_and_has_enough_jobs_that_must_pass_in_silence():
    classes = Counter(name.partition("/")[0] for name in NAMES)
    silent = [name for name in NAMES if cases.ends_of(name) <= {"right", "changed", "noted"}]

    assert len(NAMES) >= 250
    assert len(classes) >= 15
    assert len(silent) >= 90

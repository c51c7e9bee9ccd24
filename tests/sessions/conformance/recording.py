"""What a version of the client is made of, as text: its methods, its routes and its messages.

`python -m tests.sessions.conformance.recording` records the installed version; the test beside it says what differs.
"""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import tinker
from tinker.proto import tinker_public_pb2
from tinker.types import client_config_response, client_dynamic_config_response

from tests.sessions.conformance.methods import is_deprecated, of_the_client

FILE = Path(__file__).with_name("recorded.json")
COMMAND = "python -m tests.sessions.conformance.recording"
_ROUTE = re.compile(r"/api/v1/[a-z_/{}]*[a-z_}]")


def found():
    """Return what the installed version has: name -> what it is, by kind."""
    return {
        "version": {"tinker": tinker.__version__},
        "method": {name: _method(each) for name, each in of_the_client().items()},
        "message": dict(_messages(tinker_public_pb2.DESCRIPTOR)),
        "route": dict(sorted(_routes(Path(tinker.__file__).parent))),
        "flag": _flags(
            client_config_response.ClientConfigResponse, client_dynamic_config_response.ClientDynamicConfigResponse
        ),
    }


def _method(method):
    old = "deprecated " if is_deprecated(method) else ""
    names = [str(each).split(":")[0] for each in inspect.signature(method).parameters.values()]
    return f"{old}({', '.join(names)})"


def _messages(file):
    for name, enum in file.enum_types_by_name.items():
        yield name, ", ".join(f"{each.name}={each.number}" for each in enum.values)
    for message in file.message_types_by_name.values():
        yield from _fields(message)


def _fields(message):
    fields = (f"{each.number} {each.name} {_type(each)}" for each in message.fields)
    yield message.full_name, ", ".join(fields)
    for each in message.nested_types:
        yield from _fields(each)


def _type(field):
    kind = field.message_type or field.enum_type
    many = "repeated " if field.is_repeated else ""
    return many + (kind.full_name if kind else str(field.type))


def _routes(package):
    for file in package.rglob("*.py"):
        if not file.name.endswith("_test.py"):
            for route in _ROUTE.findall(file.read_text()):
                yield route, ""


def _flags(*kinds):
    return {name: repr(field.default) for kind in kinds for name, field in kind.model_fields.items()}


def differences(recorded, now):
    """Return a sentence for each thing that a version has and another has not, or has otherwise."""
    return [
        sentence
        for kind in recorded
        for name in sorted({*recorded[kind], *now[kind]})
        if (sentence := _difference(kind, name, recorded[kind].get(name), now[kind].get(name)))
    ]


def _difference(kind, name, before, after):
    if before == after:
        return None
    if before is None:
        return f"{kind} {name}: is new: {after}".rstrip(": ")
    if after is None:
        return f"{kind} {name}: is gone"
    return f"{kind} {name}: was {before}, is {after}"


if __name__ == "__main__":
    FILE.write_text(json.dumps(found(), indent=1, sort_keys=True) + "\n")

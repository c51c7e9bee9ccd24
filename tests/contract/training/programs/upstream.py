"""Prints, of each thing that the guard or a strategy takes from torch and accelerate, whether it is there."""

import functools
import importlib
import importlib.util
import inspect
import json
import sys
from pathlib import Path


def has(path):
    """Whether a module has this name; what has moved is told, not raised."""
    module, _, name = path.partition(":")
    try:
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return False
    return True


def takes(path):
    """Whether a function has a parameter of this name: `module:function(parameter`."""
    path, _, parameter = path.partition("(")
    module, _, name = path.partition(":")
    return has(path) and parameter in inspect.signature(getattr(importlib.import_module(module), name)).parameters


def reads(path):
    """Whether a folder's code has this word, outside of launchers, which write it: `package/folder=WORD`."""
    folder, _, word = path.partition("=")
    code = code_of(folder)
    # accelerate composes these.
    return word in code or f'env_prefix + "{word.removeprefix("FSDP_")}"' in code


@functools.cache
def code_of(folder):
    """The text of all modules below a folder, without those that launch."""
    package, _, rest = folder.partition("/")
    (place,) = importlib.util.find_spec(package).submodule_search_locations
    files = [each for each in (Path(place) / rest).rglob("*.py") if "commands" not in each.parts]
    return "\n".join(each.read_text() for each in files if each.name != "launch.py")


asked = json.load(sys.stdin)
how = {"has": has, "takes": takes, "reads": reads}
print(json.dumps({kind: {path: how[kind](path) for path in paths} for kind, paths in asked.items()}))

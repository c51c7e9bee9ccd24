"""TRL's rows judged on plain command lines, without a job around them."""

from __future__ import annotations

import shlex
import tomllib

from muster.strategies import upstream
from muster.strategies.documents.model import EnvVar
from muster.strategies.frameworks.trl import flags
from muster.strategies.frameworks.trl.invocations import Form, Invocation
from muster.strategies.frameworks.trl.validation import TrainingSettings
from muster.strategies.launches.sites import Site
from muster.strategies.rules import judge, load

ROWS = tomllib.loads(upstream.text("trl", "rows.toml"))["row"]
FACTS = {"program": False, "launched": False, "on_cpu": False, "distributed": False, "alone": True}
NAMES = ("--model_name_or_path", "m", "--dataset_name", "d")


def found(method, *args, env=(), world=1, **facts):
    """The findings about the arguments of a method, those about missing names left out; field is the flag's name."""
    invocation = Invocation(method, Form.TRL, tuple(args))
    variables = tuple(EnvVar(name=name, value=value) for name, value in dict(env).items())
    site = Site(("trl", method), tuple(args), own_command=True, path=(), document={}, env=variables)
    parsed = flags.parse(method, args)
    settings = TrainingSettings(invocation, parsed, site, FACTS | {"method": method} | facts, lambda: world)
    settings.field = lambda name: name
    return list(judge(load("trl"), settings))


def of_line(line, facts):
    """The findings about a line of a proof: `NAME=value trl METHOD ARGUMENT …`."""
    words = shlex.split(line)
    start = words.index("trl")
    env = dict(word.split("=", 1) for word in words[:start])
    return found(words[start + 1], *words[start + 2 :], env=env, **facts)

"""The page docs/reference/tinker-methods.md, out of the table: `python -m tests.sessions.conformance.page`."""

from __future__ import annotations

from pathlib import Path

import tinker

from tests.sessions.conformance import checks_service, checks_training  # noqa: F401  # they fill the table
from tests.sessions.conformance.methods import TABLE, is_deprecated, of_the_client

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "tinker-methods.md"
COMMAND = "python -m tests.sessions.conformance.page"
HEAD = """\
# Methods of the client

`{command}` writes this page; do not edit it.

Of the public methods of `tinker` {version}, **{done} of {all}** do here what they are for, and so do **{current} of
{all_current}** that are not deprecated. {local} of them are answered by the client alone.

A method counts when a test calls it with real arguments against a running Gateway and asserts its result
(`tests/sessions/conformance`); that it does not raise is not enough. Counted are the public callables of each class in
`tinker.lib.public_interfaces` whose name ends in Client. What a result means in numbers is tested elsewhere
([sessions](../sessions.md)).

Some methods answer less than the maker's service:

* `get_billing_usage` and `get_current_checkpoint_storage_usage` have no prices, and no events of kind `storage`.
* `export_session_trace` gives JSON that Perfetto opens, of the requests that the journal still has.
* `create_custom_loss` is computed in the client; the Gateway refuses a graph.
* `copy_weights`, `load_state` and those that create a client from a state take no `weights_access_token`: weights are
  published instead.
* A key is of a tenant and not of a person, so `whoami` knows no address, and `access_scope` and the owner of a search
  change nothing beyond the caller's own.
"""


def written():
    """Return the page."""
    methods = of_the_client()
    current = [name for name, method in methods.items() if not is_deprecated(method)]
    done = [name for name in methods if name in TABLE and TABLE[name].check]
    head = HEAD.format(
        command=COMMAND,
        version=tinker.__version__,
        done=len(done),
        all=len(methods),
        current=len(set(done) & set(current)),
        all_current=len(current),
        local=sum(TABLE[name].local for name in done),
    )
    kinds = sorted({name.partition(".")[0] for name in methods})
    return head + "".join(_section(kind, methods) for kind in kinds) + _missing(methods, done)


def _section(kind, methods):
    mine = [name for name in sorted(methods) if name.startswith(f"{kind}.") and name in TABLE and TABLE[name].check]
    rows = "".join(f"| {_named(name, methods)} | {TABLE[name].result} |\n" for name in mine if not _is_twin(name, mine))
    return f"\n## {kind}\n\n| method | its result |\n|---|---|\n{rows}"


def _is_twin(name, names):
    return name.endswith("_async") and name.removesuffix("_async") in names


def _named(name, methods):
    short = name.partition(".")[2]
    twin = ", `_async`" if f"{name}_async" in methods else ""
    old = " (deprecated)" if is_deprecated(methods[name]) else ""
    return f"`{short}`{twin}{old}"


def _missing(methods, done):
    left = [name for name in sorted(methods) if name not in done]
    rows = "".join(f"* `{name}`: {TABLE[name].result if name in TABLE else 'is not looked at yet.'}\n" for name in left)
    return f"\n## Not done\n\n{rows or 'Nothing: every method has a check.'}".rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(written())

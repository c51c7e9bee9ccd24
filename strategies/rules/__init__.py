"""Rules as rows: what a framework's flags need, exclude, bound or choose from, as data, and their engine.

A row is an entry `[[row]]` of `strategies/upstream/<package>/<version>/rows.toml`:

* `flag`, the first line: the setting that the finding is about, or several, of each of which the row is one. The row is
  judged only where the flag is written, or with `always = true`. `at = ["a", "b"]`: flags at which the finding stands
  instead, the first that is written.
* `when = { method = ["grpo"], loss_type = "kto" }`: conditions, all of which hold; of a list of such tables, one holds.
  A condition is a value, a list of values of which it is one, or a table of the tests below.
* exactly one relation: a condition on other settings, `needs = { … }` (all hold) or `excludes = { … }` (not all hold),
  which asks nothing of a flag that is off or none; or one of the tests below on the flag itself.
* `message`, a predicate whose subject is the flag, `rule`, `source` (the file of upstream that refuses), and
  `level = "warning"` or `"note"`, or `doubt = { … }`, conditions under which an error is a warning. In the message
  `{value}` is the value that is wrong, `{allowed}` what `one_of` has, `{x}` or `{x * y}` a setting or an expression.
* the proof: `refused`, a command line that upstream refuses, `says`, words of its refusal, `taken`, its twin that it
  takes, and `proof`, which part of upstream is asked (`tests/contract/proofs` has the parts). With `proof = "none"`
  only Muster itself is asked, and `reason` says why. `facts = { … }` are those that the lines assume.

Tests: `one_of`, `none_of` (values); `min`, `max`, `above`, `below`, `divides`, `multiple_of`, `length`, `same_as`
(expressions); `matches` (a regular expression for the whole text); `whole = true` (a whole number); `json = true` (a
text that begins as JSON is a JSON object); `members` (names that an object may have); `set` (neither none nor empty);
`has` (a list holds one of the values); and in conditions also `not` (a value or several) and `written`. Of a list each
item is tested, but for `length`, `has` and `set`. An expression is a number, a setting, a fact, `len(x)`, or sums of
products of these: `"per_device_train_batch_size * world + 1"`.

What cannot be read (a variable, a file) is `UNKNOWN`: a row that depends on it is not judged. That is how false
findings are avoided. The rows themselves are checked by a test (`tests/support/row_problems.py`), not at run time.
"""

from __future__ import annotations

from muster.strategies.rules.relations import UNKNOWN, Row, Unknown, Value, View, from_json, judge, load, member

__all__ = ["UNKNOWN", "Row", "Unknown", "Value", "View", "from_json", "judge", "load", "member"]

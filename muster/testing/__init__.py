"""The test kit for authors of strategies: jobs to begin with, the webhook's own decision, and the rules of mutation.

For example::

    from muster.testing import check_rules, samples

    def test_the_rules_of_mutation():
        check_rules(MyStrategy(), samples("my-framework", ["my-launcher", "train.py"]))

* `make_trainjob`, `make_runtime` and `make_jobset` return small, complete documents that a test then changes.
* `mutate` and `validate` run a strategy through the service's own decision, with the plugin's budget and copies, and
  return a `Decision`; `jobset_of` predicts the JobSet that Trainer makes of a TrainJob.
* `samples` are the jobs with which the rules are checked; add your own as `Sample`.
* `check_rules` fails with every rule that a strategy breaks, the job with which, and what to do.

It needs the extra `testing`: pip install 'muster-admission[testing]'.
"""

from __future__ import annotations

from muster.strategies.plugins import old_name
from muster.testing.documents import make_jobset, make_runtime, make_trainjob
from muster.testing.rules import check_rules
from muster.testing.runs import jobset_of, mutate, validate
from muster.testing.samples import Sample, samples

__all__ = [
    "Sample",
    "check_rules",
    "jobset_of",
    "make_jobset",
    "make_runtime",
    "make_trainjob",
    "mutate",
    "samples",
    "validate",
]

old_name.allow()

"""`muster rule`: the list of rules, one rule explained, and what it says about an id that it does not know."""

from __future__ import annotations

from muster.webhook import catalogue


def test_every_rule_is_listed_with_its_title(muster):
    said = muster("rule")
    assert said.code == 0
    for rule_id, rule in catalogue.load().items():
        assert rule_id in said.out, rule_id
        assert rule.title.split()[0] in said.out
    assert [each["rule"] for each in muster("rule", "-o", "json").json()] == list(catalogue.load())


def test_a_group_lists_the_rules_of_one_framework_alone(muster):
    listed = [each["rule"] for each in muster("rule", "vllm", "-o", "json").json()]
    assert "vllm/serve" in listed
    assert all(each.startswith("vllm/") for each in listed)


def test_one_rule_is_explained_with_why_example_and_source(muster):
    said = muster("rule", "trl/launch")
    assert said.code == 0
    assert said.out.startswith("trl/launch: ")
    for expected in ("reported as change, error, note", "command: [trl, sft]", "instead:", "source: trl 1.16.0"):
        assert expected in said.out
    told = muster("rule", "trl/launch", "-o", "json").json()
    assert (told["rule"], told["reportedAs"]) == ("trl/launch", ["change", "error", "note"])
    assert "command: [torchrun, -m, trl.scripts.sft]" in told["instead"]


def test_a_rule_that_frameworks_share_names_the_others(muster):
    assert "the same: torch/label-disagrees, torchtune/label-disagrees" in muster("rule", "trl/label-disagrees").out


def test_an_example_that_needs_more_than_a_job_says_so(muster):
    assert "for example (with a profile in the configuration):" in muster("rule", "torch/claim").out


def test_a_framework_of_another_package_uses_the_rules_of_torch(muster):
    said = muster("rule", "axolotl/mig")
    assert said.code == 0
    assert "the catalogue has no axolotl/mig; this is what the rule of this name means for torch" in said.out


def test_an_unknown_rule_ends_in_one_line_with_the_closest_ids(muster):
    said = muster("rule", "trl/lanch")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("muster: 'trl/lanch' is not in the catalogue of rules; the nearest are trl/launch, ")
    assert said.err.count("\n") == 1
    assert "core/standalone" in muster("rule", "trl/standalon").err
    assert "torch/mig" in muster("rule", "axolotl/nothing/mig").err
    assert "`muster rule` lists all" in muster("rule", "x" * 5000).err
    assert len(muster("rule", "x" * 5000).err) < 300

"""What the platform declares a secret by `audit.redact` is none of the outputs' to tell, not only none of the log's."""

from __future__ import annotations

import io
import logging

import orjson
import pytest

from muster.strategies import warning
from muster.webhook import configs, logs
from muster.webhook.admission import answers
from muster.webhook.admission.policies import Mode, Policy
from muster.webhook.audit.redaction import doors, redaction
from muster.webhook.server import recorders
from tests.support import admissions, jobs

VALUE = "planted-here-0001"


@pytest.fixture(autouse=True)
def _rules():
    recorders.use_rules(configs.Audit(redact=("licen[cs]e",)))
    yield
    doors.further(redaction.DEFAULT)


def line(message, **extra):
    stream = io.StringIO()
    logger = logging.Logger("planted")  # noqa: LOG001  # one of its own, that no other test sees
    logger.addHandler(logging.StreamHandler(stream))
    logger.handlers[0].setFormatter(logs.JsonFormatter())
    logger.error(message, extra=extra)
    return stream.getvalue()


def test_a_further_name_hides_its_value_in_findings_that_quote_it_anywhere():
    job = {"env": [{"name": "ACME_LICENCE", "value": VALUE}]}
    (told,), [said] = doors.findings([warning("spec", VALUE, f"{VALUE} is odd", rule="x/y")], [f"see {VALUE}"], job)
    assert VALUE not in f"{told} {said}"


@pytest.mark.parametrize("mode", [Mode.ENFORCE, Mode.WARN])
@pytest.mark.parametrize("phase", ["mutate", "validate"])
def test_a_further_name_hides_its_value_in_answers(mode, phase):
    job = jobs.make_trainjob(args=[f"--acme_licence={VALUE}", VALUE], env=[{"name": "ACME_LICENSE", "value": VALUE}])
    decision = admissions.decide(job, phase=phase, policy=Policy(mode=mode), reader=admissions.shipped_reader())
    response = {key: value for key, value in answers.answer(decision).items() if key != "patch"}
    assert VALUE not in orjson.dumps(response).decode()


def test_a_further_name_hides_its_value_in_log_lines_and_their_facts():
    assert VALUE not in line(f"failed with acme-licence={VALUE}", fact={"licence": VALUE}, other=[f"LICENSE={VALUE}"])


def test_a_further_format_is_hidden_in_texts_and_fields():
    doors.further(redaction.Rules.from_patterns(formats=[r"acme-\d+"]))
    assert (doors.text("see acme-123!"), doors.field("env[acme-123]")) == ("see <redacted>!", "env[<redacted>]")
    assert doors.value(["acme-123"]) == '["<redacted>"]'


def test_a_rule_that_is_no_expression_is_told_with_its_place():
    with pytest.raises(configs.ConfigError, match=r"audit\.redact: redaction name 'a\('"):
        recorders.use_rules(configs.Audit(redact=("a(",)))


@pytest.mark.parametrize(
    "told",
    [
        '{"kind": "Secret", "data": {"x": "planted-here-0001"}}',
        '{"a": "{\\"kind\\": \\"Secret\\", \\"stringData\\": {\\"x\\": \\"planted-here-0001\\"}}"}',
        "token=planted-here-0001 was refused: planted-here-0001",
    ],
)
def test_one_text_is_read_as_the_document_that_it_is(told):
    assert VALUE not in doors.text(told)


@pytest.mark.parametrize(
    "name",
    [f"--hub_tok {VALUE}", f'{{"a": "{{\\"password\\": \\"{VALUE}\\"}}"}}', f"password: {VALUE}", f"token={VALUE}"],
)
def test_a_path_with_a_name_that_kubernetes_would_not_take_is_read_as_a_text(name):
    assert VALUE not in doors.field(f"spec.replicatedJobs[{name}].template.spec")


def test_a_path_of_common_names_is_shown():
    path = "spec.replicatedJobs[node].template.spec.template.spec.containers[auth].env[HF_TOKEN].value"
    assert doors.field(path) == path

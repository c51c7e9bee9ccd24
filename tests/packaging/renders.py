"""The chart and the kustomizations, rendered by helm and kubectl, as documents."""

from __future__ import annotations

import copy
import subprocess

import yaml

from muster.webhook import configs
from tests.manifests import files

__all__ = ["CHART", "NAMESPACE", "PEM", "WEBHOOKS", "Helm", "config", "kustomize", "one"]

CHART = files.FOLDER / "chart"
NAMESPACE = "muster-system"
WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
PEM = "-----BEGIN CERTIFICATE-----\nbm90IG9uZQ==\n-----END CERTIFICATE-----\n"


class Helm:
    """One helm.

    Args:
        program: path of the binary.
        environment: all that it sees of ours.
    """

    def __init__(self, program, environment):
        self._program = str(program)
        self._environment = environment
        self._rendered = {}

    def run(self, *arguments, given=""):
        """Run it; the outcome has returncode, stdout and stderr."""
        return subprocess.run(
            [self._program, *map(str, arguments)],
            input=given,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env=self._environment,
        )

    def template(self, values=None, *options, chart=CHART, namespace=NAMESPACE):
        """Return what the chart renders with these values, as documents."""
        key = (yaml.safe_dump(values or {}), options, chart, namespace)
        if key not in self._rendered:
            done = self._template(values, options, chart, namespace)
            assert done.returncode == 0, done.stderr
            self._rendered[key] = [each for each in yaml.load_all(done.stdout, Loader=_Strict) if each]
        return copy.deepcopy(self._rendered[key])

    def refusal(self, values):
        """Return what helm says to values that are refused."""
        done = self._template(values, (), CHART, NAMESPACE)
        assert done.returncode != 0, "nothing was refused"
        return done.stderr

    def _template(self, values, options, chart, namespace):
        given = yaml.safe_dump(values or {})
        return self.run("template", "muster", chart, "--namespace", namespace, "--values", "-", *options, given=given)


def kustomize(kubectl, folder):
    """Return the documents of a kustomization of `manifests`."""
    command = [str(kubectl), "kustomize", str(files.FOLDER / folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return list(yaml.load_all(done.stdout, Loader=_Strict))


def one(documents, kind, name=""):
    """The only document of a kind, or the only one of that name."""
    found = [each for each in documents if each["kind"] == kind and name in ("", each["metadata"]["name"])]
    (only,) = found
    return only


def config(documents):
    """The configuration in the ConfigMap, as `muster serve` reads it."""
    (text,) = one(documents, "ConfigMap", "muster")["data"].values()
    return configs.parse(text.encode(), "muster.yaml")


class _Strict(yaml.CSafeLoader):
    """Refuses a key that is given twice, of which the API server would see the last one."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = sorted({str(key) for key in keys if keys.count(key) > 1})
        assert not twice, f"{', '.join(twice)}: twice in one object, line {node.start_mark.line + 1}"
        return super().construct_mapping(node, deep=deep)

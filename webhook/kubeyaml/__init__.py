"""YAML as kubectl reads it, from files that nobody has checked.

PyYAML's own loader turns `2026-11-20` into a date, `22:22` into 1342 and a repeated key into silence, and it expands a
few lines of aliases to gigabytes. Kubernetes manifests mean something else: what kubectl's parser makes of them
(goyaml.v2 `resolve.go`, sigs.k8s.io/yaml `yaml.go`). So values are built here, from libyaml's events: with its rules
for plain words, with JSON's types only, with limits, and with a line in every error.
"""

from __future__ import annotations

from webhook.kubeyaml.builders import MAX_ALIASED, MAX_DEPTH, YamlError
from webhook.kubeyaml.emitters import dump, dump_all
from webhook.kubeyaml.scalars import plain
from webhook.kubeyaml.streams import Parsed, load, load_all

__all__ = ["MAX_ALIASED", "MAX_DEPTH", "Parsed", "YamlError", "dump", "dump_all", "load", "load_all", "plain"]

"""Reads YAML as kubectl does, from untrusted files.

PyYAML's own loader turns `2026-11-20` into a date and `22:22` into 1342, ignores repeated keys, and expands a few lines
of aliases to gigabytes. Kubernetes manifests mean what kubectl's parser reads (goyaml.v2 `resolve.go`, sigs.k8s.io/yaml
`yaml.go`). So values are built here from libyaml's events: with kubectl's rules for unquoted words, only JSON's types,
limits, and a line in every error.
"""

from __future__ import annotations

from muster.webhook.kubeyaml.composer import MAX_DEPTH, Parsed, YamlError, load, load_all
from muster.webhook.kubeyaml.emitters import Row, dump, dump_all
from muster.webhook.kubeyaml.scalars import plain

__all__ = ["MAX_DEPTH", "Parsed", "Row", "YamlError", "dump", "dump_all", "load", "load_all", "plain"]

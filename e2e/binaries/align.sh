#!/usr/bin/env bash
# Gives coredns, dradriver and our own webhooks of bench/peers the versions of all modules that kubernetes has as well, so
# that Go's build cache holds most of them once kubernetes is built. Run it after an upgrade of any of them; it needs the
# network.
set -euo pipefail
cd "$(dirname "$0")"

pinned() { # of the programs of a folder: module and version, as they are built
  (cd "$1" && go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{with .Replace}}{{.Version}}{{else}}{{.Version}}{{end}}{{end}}{{end}}' \
    $(go list tool)) | LC_ALL=C sort -u
}

for folder in coredns dradriver ../../bench/peers/binaries/ours; do
  LC_ALL=C join <(pinned kubernetes) <(pinned "$folder") | while read -r path ours theirs; do
    if [[ $ours != "$theirs" ]] && ! grep -q "^replace $path " "$folder/go.mod"; then
      (cd "$folder" && go mod edit -require="$path@$ours")
    fi
  done
  (cd "$folder" && go mod tidy)
done

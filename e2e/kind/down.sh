#!/usr/bin/env bash
# Ends a cluster of up.sh and removes its files: e2e/kind/down.sh [NAME]. STATE as for up.sh.
set -euo pipefail

name=${1:-muster}
state=${STATE:-${MUSTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/muster}/kind/$name}

command -v kind >/dev/null || { echo "muster: kind is missing" >&2; exit 2; }
kind delete cluster --name "$name" --kubeconfig "$state/kubeconfig"
rm -rf -- "$state/upstream" "$state/kubeconfig" "$state/env"
rmdir -- "$state" 2>/dev/null || true

#!/usr/bin/env bash
# Brings up a kind cluster with JobSet, Trainer, KWOK and Muster, ready for the suites.
#
#   e2e/kind/up.sh [NAME]        NAME of the cluster, default muster
#
# NODE_IMAGE   kind's node image, such as kindest/node:v1.36.1 (default: kind's own choice)
# PYTHON       a Python with Muster's dependencies (default: .venv of this checkout, which `make cluster` makes as well)
# STATE        folder for the kubeconfig and the env file (default: below the user's cache folder)
# Your own kubeconfig is not touched. Run it again to build and install again on the existing cluster.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
name=${1:-muster}
python=${PYTHON:-$root/.venv/bin/python}
state=${STATE:-${MUSTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/muster}/kind/$name}
again=

fail() {
  echo "muster: $*" >&2
  exit 2
}

need() {
  command -v "$1" >/dev/null || fail "$1 is missing: $2"
}

create() {
  if kind get clusters 2>/dev/null | grep -x -- "$name" >/dev/null; then
    again=yes
    kind export kubeconfig --name "$name" --kubeconfig "$kubeconfig"
    return
  fi
  kind create cluster --name "$name" --config "$root/e2e/kind/config.yaml" --kubeconfig "$kubeconfig" --wait 120s \
    ${NODE_IMAGE:+--image "$NODE_IMAGE"}
}

build() {
  local muster=$1 probe=$2
  docker build --file "$root/images/webhook/Dockerfile" --tag "$muster" \
    --build-arg REVISION="$(git -C "$root" rev-parse HEAD 2>/dev/null || echo unknown)" "$root"
  docker build --file "$root/e2e/kind/probe.Dockerfile" --tag "$probe" "$root/e2e/images/probe"
  kind load docker-image --name "$name" "$muster" "$probe"
}

need kind "see kind's own installation page"
need docker "kind runs its nodes in Docker; without it use 'make cluster'"
need kubectl "see Kubernetes' own installation page"
docker info >/dev/null 2>&1 || fail "docker is installed, but its engine does not answer"
[[ -x $python ]] || fail "$python is missing: run 'make test-fast' once, or set PYTHON"

mkdir -p "$state"
chmod 700 "$state"
state=$(cd "$state" && pwd)
kubeconfig=$state/kubeconfig
cd "$root"
read -r muster probe < <("$python" -m e2e.kind images)
create
build "$muster" "$probe"
"$python" -m e2e.kind install --state "$state"
if [[ $again ]]; then
  # The image keeps its name, so only this restart makes the Deployment use the new one.
  kubectl --kubeconfig "$kubeconfig" --namespace muster-system rollout restart deployment/muster
  kubectl --kubeconfig "$kubeconfig" --namespace muster-system rollout status deployment/muster --timeout=120s
fi

cat <<END

muster: the cluster is up. To look around:
  export KUBECONFIG=$kubeconfig
To run the suites in it:
  KUBECONFIG=$kubeconfig make e2e OWN=1
To end it:
  ${STATE:+STATE=$state }e2e/kind/down.sh $name
END

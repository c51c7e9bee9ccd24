// What carries the CustomResourceDefinitions of reports; nothing is built of it, and its own dependencies are never
// fetched. PolicyReport comes with Kyverno (74 MB unpacked), as in most clusters that have it: its own project,
// sigs.k8s.io/wg-policy-prototypes, has no release. Upgrade: change a version, `go mod download` with both names.
module muster.dev/e2e/reports

go 1.26.0

require (
	github.com/kyverno/kyverno v1.18.2
	github.com/openreports/reports-api v0.2.1
)

{{/* Names are fixed: two installations of Muster in one cluster would change each other's jobs. */}}

{{/* The labels by which Deployment, Service and PodDisruptionBudget select pods. They must not change between versions. */}}
{{- define "muster.selector" -}}
app.kubernetes.io/name: muster
app.kubernetes.io/component: webhook
{{- end }}

{{- define "muster.labels" -}}
{{- mergeOverwrite (deepCopy .Values.commonLabels) (include "muster.ownLabels" . | fromYaml) | toYaml }}
{{- end }}

{{- define "muster.ownLabels" -}}
{{ include "muster.selector" . }}
app.kubernetes.io/part-of: muster
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* registry/repository:tag@digest of a map with these keys; parts that are empty are left out, and `registry` stands for an empty one. */}}
{{- define "muster.image" -}}
{{- $name := .image.repository -}}
{{- with .image.registry | default .registry }}{{ $name = printf "%s/%s" . $name }}{{ end -}}
{{- $name }}:{{ .image.tag | default .version }}{{ with .image.digest }}@{{ . }}{{ end -}}
{{- end }}

{{/*
The image `over` with the parts that the map `image` gives. A repository is another image, so nothing of `over` is kept with it; a tag
or a digest replaces the digest.
*/}}
{{- define "muster.imageOver" -}}
{{- if .image.repository -}}
{{- include "muster.image" . -}}
{{- else -}}
{{- $digest := regexFind "@.*$" .over -}}
{{- $name := trimSuffix $digest .over -}}
{{- $registry := regexFind "^([^/]*[.:][^/]*|localhost)/" $name -}}
{{- $repository := trimPrefix $registry $name | regexFind "^[^:]+" -}}
{{- $tag := trimPrefix (printf "%s%s:" $registry $repository) $name -}}
{{- with .image.registry }}{{ $registry = printf "%s/" . }}{{ end -}}
{{- if or .image.tag .image.digest }}{{ $digest = "" }}{{ end -}}
{{- with .image.digest }}{{ $digest = printf "@%s" . }}{{ end -}}
{{- printf "%s%s:%s%s" $registry $repository (.image.tag | default $tag) $digest -}}
{{- end -}}
{{- end }}

{{/* The Secret with tls.crt, tls.key and ca.crt, for the modes in which the pods mount one. */}}
{{- define "muster.tlsSecret" -}}
{{- if eq .Values.tls.mode "files" -}}{{ .Values.tls.files.secretName }}{{- else -}}muster-tls{{- end -}}
{{- end }}

{{/* The ServiceAccount of the webhook's pods. */}}
{{- define "muster.serviceAccount" -}}
{{- .Values.serviceAccount.name | default "muster" -}}
{{- end }}

{{/* Where pods resolve names: with the node's network, ClusterFirst would be the node's own resolver. */}}
{{- define "muster.dnsPolicy" -}}
{{- .Values.dnsPolicy | default (ternary "ClusterFirstWithHostNet" "ClusterFirst" .Values.hostNetwork) -}}
{{- end }}

{{/* The same two for the page of the audit log, which is not a part of what the webhook's Service selects. */}}
{{- define "muster.pageSelector" -}}
app.kubernetes.io/name: muster
app.kubernetes.io/component: audit-page
{{- end }}

{{- define "muster.pageLabels" -}}
{{- mergeOverwrite (include "muster.labels" . | fromYaml) (include "muster.pageSelector" . | fromYaml) | toYaml }}
{{- end }}

{{/* The Secret with the page's certificate; empty where the page makes one itself. */}}
{{- define "muster.pageSecret" -}}
{{- .Values.auditPage.tlsSecretName | default (ternary "muster-audit-page-tls" "" (eq .Values.tls.mode "certManager")) -}}
{{- end }}

{{/*
One set of rights, bound to Muster's account: a Role with its binding in each of `namespaces`, or in all of them a ClusterRole.
Arguments: root, name, rules, and namespaces where they are not those of the configuration.
*/}}
{{- define "muster.rights" -}}
{{- range $namespace := .namespaces | default .root.Values.config.cluster.namespaces | default (list "") }}
{{- $kind := ternary "Role" "ClusterRole" (ne $namespace "") }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}
metadata:
  name: {{ $.name }}
  {{- with $namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "muster.labels" $.root | nindent 4 }}
rules:
  {{- $.rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata:
  name: {{ $.name }}
  {{- with $namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "muster.labels" $.root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: {{ $.name }}
subjects:
  - kind: ServiceAccount
    name: {{ include "muster.serviceAccount" $.root }}
    namespace: {{ $.root.Release.Namespace }}
{{- end }}
{{- end }}

{{/* The rights to a Lease that replicas compete for. resourceNames cannot narrow create, because the object does not exist yet. */}}
{{- define "muster.leaseRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ . }}]
  verbs: [get, update]
{{- end }}

{{/* What pods of Muster reach by a NetworkPolicy: DNS, and the API server behind its Service. */}}
{{- define "muster.egressRules" -}}
{{- $api := .Values.networkPolicy.apiServer -}}
- ports:
    - {protocol: UDP, port: 53}
    - {protocol: TCP, port: 53}
- ports:
    {{- range $api.ports }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
  {{- with $api.cidrs }}
  to:
    {{- range . }}
    - ipBlock: {cidr: {{ . }}}
    {{- end }}
  {{- end }}
{{- end }}

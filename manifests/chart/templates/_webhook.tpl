{{/*
One entry of a webhook configuration. Takes a map: root, phase (mutate, validate), operation (CREATE, UPDATE), resource.
One entry per kind and operation, because the two operations must fail differently:

* CREATE fails closed (Fail). A job that slipped by unmutated would train on a part of its GPUs and end with success.
* UPDATE fails open (Ignore). Suspending, resuming and ending a job are updates; Muster's outage must not hold quota.

reinvocationPolicy IfNeeded: another webhook may change the job afterwards; Muster's changes are idempotent. sideEffects
None: nothing outside the object is written. No subresource is named, so writes of status and scale are not sent here.
*/}}
{{- define "muster.webhook" -}}
{{- $trainer := list "trainer.kubeflow.org" "v1alpha1" -}}
{{- $api := get (dict "trainjobs" $trainer "jobsets" (list "jobset.x-k8s.io" "v1alpha2") "optimizationjobs" $trainer) .resource -}}
{{- $namespace := .root.Release.Namespace -}}
{{- $settings := get .root.Values.webhooks (lower .operation) -}}
- name: {{ lower .operation }}.{{ .resource }}.muster.dev
  clientConfig:
    service: {name: muster, namespace: {{ $namespace }}, port: {{ .root.Values.service.port }}, path: /{{ .phase }}/{{ .resource }}}
    {{- if eq .root.Values.tls.mode "files" }}
    caBundle: {{ .root.Values.tls.files.caBundle | b64enc }}
    {{- end }}
  rules:
    - operations: [{{ .operation }}]
      apiGroups: [{{ index $api 0 }}]
      apiVersions: [{{ index $api 1 }}]
      resources: [{{ .resource }}]
      scope: Namespaced
  failurePolicy: {{ $settings.failurePolicy }}
  timeoutSeconds: {{ $settings.timeoutSeconds }}
  matchPolicy: Equivalent
  {{- if eq .phase "mutate" }}
  reinvocationPolicy: IfNeeded
  {{- end }}
  sideEffects: None
  admissionReviewVersions: [v1]
  # Muster's own namespace and kube-system do not depend on Muster.
  namespaceSelector:
    matchExpressions:
      - key: kubernetes.io/metadata.name
        operator: NotIn
        values: {{ concat (list "kube-system" $namespace) .root.Values.webhooks.excludedNamespaces | uniq | toJson }}
      {{- with .root.Values.config.cluster.namespaces }}
      - key: kubernetes.io/metadata.name
        operator: In
        values: {{ toJson . }}
      {{- end }}
  {{- if eq .operation "UPDATE" }}
  matchConditions:
    # An object that is being deleted: only its finalizers are removed.
    - name: not-being-deleted
      expression: "!has(object.metadata.deletionTimestamp)"
    {{- if and (eq .phase "mutate") (eq .resource "trainjobs") }}
    # Restoring needs this annotation; without it on either side there is nothing to restore.
    - name: changed-by-muster
      expression: >-
        [object, oldObject].exists(each,
        has(each.metadata.annotations) && 'muster.dev/applied' in each.metadata.annotations)
    {{- else if eq .phase "mutate" }}
    # Restoring needs this annotation; without it on either side only volume claims may have to be restored.
    - name: something-to-restore
      expression: >-
        (has(object.spec) && has(object.spec.volumeClaimPolicies)) || [object, oldObject].exists(each,
        has(each.metadata.annotations) && 'muster.dev/applied' in each.metadata.annotations)
    {{- end }}
  {{- end }}
{{- end }}

{{- define "muster.webhookMetadata" -}}
name: muster
labels:
  {{- include "muster.labels" . | nindent 2 }}
{{- if eq .Values.tls.mode "certManager" }}
annotations:
  # cert-manager's injector writes caBundle of every entry from the CA that signed this Certificate.
  cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/muster-tls
{{- end }}
{{- end }}

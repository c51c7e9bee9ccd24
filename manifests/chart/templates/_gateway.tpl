{{/* A Gateway of RL sessions: names that its documents share, and what the values must say together. */}}

{{/* The labels by which its pods are selected; the NetworkPolicy of its engines lets in pods with these two. */}}
{{- define "muster.gatewaySelector" -}}
app.kubernetes.io/name: muster-gateway
app.kubernetes.io/instance: {{ .Values.gateway.name }}
{{- end }}

{{- define "muster.gatewayLabels" -}}
{{- $own := omit (include "muster.labels" . | fromYaml) "app.kubernetes.io/component" -}}
{{- mergeOverwrite $own (include "muster.gatewaySelector" . | fromYaml) | toYaml }}
{{- end }}

{{/* The labels by which the agents of devices are selected. */}}
{{- define "muster.devicesSelector" -}}
app.kubernetes.io/name: muster-devices
app.kubernetes.io/instance: {{ .Values.gateway.name }}
{{- end }}

{{- define "muster.devicesLabels" -}}
{{- $own := omit (include "muster.labels" . | fromYaml) "app.kubernetes.io/component" -}}
{{- mergeOverwrite $own (include "muster.devicesSelector" . | fromYaml) | toYaml }}
{{- end }}

{{- define "muster.gatewayNamespace" -}}
{{- .Values.gateway.namespace | default .Values.gateway.engines.namespace -}}
{{- end }}

{{/* The Secret with its certificate; empty for HTTP. */}}
{{- define "muster.gatewaySecret" -}}
{{- if not .Values.gateway.tls.plain -}}
{{- .Values.gateway.tls.secretName | default (printf "%s-tls" .Values.gateway.name) -}}
{{- end -}}
{{- end }}

{{/* PersistentVolumeClaim:FOLDER as the engines see it. */}}
{{- define "muster.gatewayVolume" -}}
{{- printf "%s:%s" (.root.Values.gateway.storage.enginesClaimName | default .root.Values.gateway.storage.claimName) .folder -}}
{{- end }}

{{/* Checks that a schema cannot express; each message says what to do. */}}
{{- define "muster.checkGateway" -}}
{{- $gateway := .Values.gateway -}}
{{- $namespace := include "muster.gatewayNamespace" . -}}
{{- range $key, $value := dict "model.name" $gateway.model.name "storage.claimName" $gateway.storage.claimName -}}
{{- if not $value -}}
{{- fail (printf "gateway.%s: is empty although gateway.enabled is true; docs/sessions.md says what to give" $key) -}}
{{- end -}}
{{- end -}}
{{- if has $gateway.engines.namespace (concat (list "kube-system" .Release.Namespace) .Values.webhooks.excludedNamespaces) -}}
{{- fail (printf "gateway.engines.namespace: Muster decides nothing in %s, so that engines would get no claim, seat or node there; give another namespace" $gateway.engines.namespace) -}}
{{- end -}}
{{- if and .Values.config.cluster.namespaces (not (has $gateway.engines.namespace .Values.config.cluster.namespaces)) -}}
{{- fail (printf "gateway.engines.namespace: %s is not in config.cluster.namespaces, so that Muster decides nothing there; add it" $gateway.engines.namespace) -}}
{{- end -}}
{{- if and (gt (int $gateway.replicas) 1) (not $gateway.database.secretName) -}}
{{- fail (printf "gateway.replicas: %v of them cannot share a journal in a file; give gateway.database.secretName, or 1" $gateway.replicas) -}}
{{- end -}}
{{- if and $gateway.storage.enginesClaimName (eq $namespace $gateway.engines.namespace) (ne $gateway.storage.enginesClaimName $gateway.storage.claimName) -}}
{{- fail (printf "gateway.storage.enginesClaimName: Gateway and engines are both in %s and have one claim, %s; leave it empty" $namespace $gateway.storage.claimName) -}}
{{- end -}}
{{- if and $gateway.tls.plain $gateway.tls.secretName -}}
{{- fail "gateway.tls: has plain and secretName; give one of them" -}}
{{- end -}}
{{- if and $gateway.engines.profile (not (hasKey (.Values.config.profiles | default dict) $gateway.engines.profile)) -}}
{{- fail (printf "gateway.engines.profile: config.profiles has no %s, so that Muster would refuse the engines; add it there" $gateway.engines.profile) -}}
{{- end -}}
{{- if and $gateway.engines.spillOver (not $gateway.engines.profile) -}}
{{- fail "gateway.engines.spillOver: comes after gateway.engines.profile, which is empty; give that the first of them" -}}
{{- end -}}
{{- range $name := $gateway.engines.spillOver -}}
{{- if eq $name $gateway.engines.profile -}}
{{- fail (printf "gateway.engines.spillOver: %s is gateway.engines.profile already; leave it out" $name) -}}
{{- end -}}
{{- if not (hasKey ($.Values.config.profiles | default dict) $name) -}}
{{- fail (printf "gateway.engines.spillOver: config.profiles has no %s, so that Muster would refuse the engines; add it there" $name) -}}
{{- end -}}
{{- end -}}
{{- if and $gateway.devices.enabled (not $gateway.engines.profile) -}}
{{- fail "gateway.devices.enabled: engines have no device on which they could take turns; give a shared profile as gateway.engines.profile" -}}
{{- end -}}
{{- if and (not $gateway.tls.plain) (not $gateway.tls.secretName) -}}
{{- $issuer := .Values.tls.certManager.issuerRef -}}
{{- if ne .Values.tls.mode "certManager" -}}
{{- fail (printf "gateway.tls.secretName: is empty; give a Secret with tls.crt and tls.key in %s for %s.%s.svc, or plain: true where a proxy before the Gateway ends TLS" $namespace $gateway.name $namespace) -}}
{{- end -}}
{{- if and (ne $namespace .Release.Namespace) (ne (toString $issuer.kind) "ClusterIssuer") -}}
{{- fail (printf "gateway.tls.secretName: is empty, and the Issuer of %s makes no certificates in %s; give a Secret, or a ClusterIssuer as tls.certManager.issuerRef" .Release.Namespace $namespace) -}}
{{- end -}}
{{- end -}}
{{- end }}

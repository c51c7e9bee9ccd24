{{/*
Muster's configuration, as YAML: `config` of the values, and what only the chart knows: the source of the certificates,
the namespace (also of the anchors and of Leases), and whether the controllers have their rights.
*/}}
{{- define "muster.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $_ := set $config "apiVersion" "muster.dev/v1alpha1" -}}
{{- $_ := set $config "kind" "MusterConfig" -}}
{{- $tls := dict "service" "muster" "namespace" .Release.Namespace -}}
{{- if eq .Values.tls.mode "secret" -}}
{{- $lease := dict "name" (include "muster.certificatesLease" .) "namespace" .Release.Namespace -}}
{{- $secret := dict "name" .Values.tls.secret.name "namespace" .Release.Namespace "lease" $lease -}}
{{- $_ := set $tls "secret" (mergeOverwrite (deepCopy .Values.tls.secret.settings) $secret) -}}
{{- else -}}
{{- range $key, $file := dict "certFile" "tls.crt" "keyFile" "tls.key" "caFile" "ca.crt" -}}
{{- $_ := set $tls $key (printf "/etc/muster-tls/%s" $file) -}}
{{- end -}}
{{- end -}}
{{- $_ := set $config "tls" $tls -}}
{{- if eq (dig "audit" "anchors" "none" .Values.config) "configmap" -}}
{{- $settings := mergeOverwrite (default (dict) $config.audit.anchorSettings) (dict "namespace" .Release.Namespace) -}}
{{- $_ := set $config.audit "anchorSettings" $settings -}}
{{- end -}}
{{- if .Values.controllers.enabled -}}
{{- $lease := dict "name" (include "muster.controllersLease" .) "namespace" .Release.Namespace -}}
{{- $_ := set $config "controllers" (mergeOverwrite (default (dict) $config.controllers) (dict "enabled" true "lease" $lease)) -}}
{{- end -}}
{{- if dig "trainings" "enabled" false .Values.config -}}
{{- $lease := dict "name" (include "muster.trainingsLease" .) "namespace" .Release.Namespace -}}
{{- $_ := set $config "trainings" (mergeOverwrite $config.trainings (dict "lease" $lease)) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end }}

{{/*
Changes when pods must restart. Muster follows the file for the keys that are left out here, so that a change of mode does
not restart every replica.
*/}}
{{- define "muster.configDigest" -}}
{{- $config := include "muster.config" . | fromYaml -}}
{{- omit $config "mode" "frameworks" "profiles" "roles" "onFailure" "pluginBudget" "budget" | toJson | sha256sum | trunc 16 -}}
{{- end }}

{{/* The names of the Leases that replicas compete for; the roles use them too. */}}
{{- define "muster.certificatesLease" -}}
{{- dig "lease" "name" "muster-certificates" .Values.tls.secret.settings -}}
{{- end }}
{{- define "muster.controllersLease" -}}
{{- dig "controllers" "lease" "name" "muster-controllers" .Values.config -}}
{{- end }}
{{- define "muster.trainingsLease" -}}
{{- dig "trainings" "lease" "name" "muster-trainings" .Values.config -}}
{{- end }}

{{- define "muster.port" -}}
{{- dig "server" "port" 8443 .Values.config | int -}}
{{- end }}

{{/* Checks that a schema cannot express; each message says what to do. */}}
{{- define "muster.check" -}}
{{- $timeout := dig "server" "requestTimeout" 4.0 .Values.config | float64 -}}
{{- range $operation := list "create" "update" -}}
{{- $waits := (index $.Values.webhooks $operation).timeoutSeconds | float64 -}}
{{- if le $waits $timeout -}}
{{- fail (printf "webhooks.%s.timeoutSeconds: %v is not above config.server.requestTimeout (%v): the API server would give up before Muster can say why" $operation $waits $timeout) -}}
{{- end -}}
{{- end -}}
{{- if and (eq .Values.tls.mode "certManager") .Values.webhooks.enabled (not (.Capabilities.APIVersions.Has "cert-manager.io/v1")) (lookup "v1" "Namespace" "" "kube-system") -}}
{{- fail "tls.mode: certManager: the cluster does not serve cert-manager.io/v1; install cert-manager first, or choose secret" -}}
{{- end -}}
{{- end }}

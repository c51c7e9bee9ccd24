{{/*
Muster's configuration, as YAML: `config` of the values, and what only the chart knows: the source of the certificates,
the namespace (also of the anchors and of Leases), whether the controllers have their rights, and the image of the guard.
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
{{- if ne (dig "guard" "inject" "never" .Values.config) "never" -}}
{{- $image := include "muster.image" (dict "image" .Values.image "version" .Chart.AppVersion) -}}
{{- $_ := set $config "guard" (mergeOverwrite (dict "image" $image) $config.guard) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end }}

{{/*
Changes when pods must restart. Muster follows the file for the keys that are left out here, so that a change of mode does
not restart every replica.
*/}}
{{- define "muster.configDigest" -}}
{{- $config := include "muster.config" . | fromYaml -}}
{{- omit $config "mode" "frameworks" "profiles" "roles" "onFailure" "pluginBudget" "budget" "guard" | toJson | sha256sum | trunc 16 -}}
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
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) -}}
{{- fail "serviceAccount.name: is empty although serviceAccount.create is false; give the name of a ServiceAccount that exists" -}}
{{- end -}}
{{- with .Values.podDisruptionBudget -}}
{{- if and .minAvailable .maxUnavailable -}}
{{- fail (printf "podDisruptionBudget: has minAvailable (%v) and maxUnavailable (%v); give one of them" .minAvailable .maxUnavailable) -}}
{{- end -}}
{{- if and .enabled .minAvailable (or (eq (toString .minAvailable) "100%") (and (not (kindIs "string" .minAvailable)) (ge (int .minAvailable) (int $.Values.replicas)))) -}}
{{- fail (printf "podDisruptionBudget.minAvailable: %v leaves none of %v replicas to be evicted, so that no node with one could be drained; give less, or maxUnavailable" .minAvailable $.Values.replicas) -}}
{{- end -}}
{{- end -}}
{{- range $name := .Values.config.cluster.namespaces -}}
{{- if has $name (concat (list "kube-system" $.Release.Namespace) $.Values.webhooks.excludedNamespaces) -}}
{{- fail (printf "config.cluster.namespaces: Muster decides nothing in %s; leave it out" $name) -}}
{{- end -}}
{{- end -}}
{{- range .Values.extraVolumes -}}
{{- if has .name (list "config" "tls" "audit-log") -}}
{{- fail (printf "extraVolumes: %s is the name of a volume that the chart makes; give another name" .name) -}}
{{- end -}}
{{- end -}}
{{- include "muster.checkFile" . -}}
{{- end }}

{{/* The file of the audit log must be below the nearest mount, and that one must be writable. */}}
{{- define "muster.checkFile" -}}
{{- $audit := .Values.config.audit | default dict -}}
{{- $file := $audit.file | default dict -}}
{{- $path := "" -}}
{{- if kindIs "map" $file -}}{{- $path = toString ($file.path | default "") -}}{{- end -}}
{{- $volume := .Values.auditVolume -}}
{{- if and .Values.auditPage.enabled (not $volume.claimName) -}}
{{- fail "auditPage.enabled: the page reads what the replicas write to one volume, and there is none; give auditVolume.claimName" -}}
{{- end -}}
{{- if and $volume.claimName (ne (dir $path) $volume.mountPath) -}}
{{- fail (printf "auditVolume.claimName: config.audit.file.path (%s) is not a file in auditVolume.mountPath; give %s/audit.log" ($path | default "none") $volume.mountPath) -}}
{{- end -}}
{{- if and $path (not $volume.claimName) -}}
{{- $readable := dict -}}
{{- range .Values.extraVolumes -}}
{{- if or .configMap .secret .projected .downwardAPI .image -}}{{- $_ := set $readable (toString .name) true -}}{{- end -}}
{{- end -}}
{{- $nearest := dict "mountPath" "" -}}
{{- range .Values.extraVolumeMounts -}}
{{- $folder := printf "%s/" (trimSuffix "/" (toString .mountPath)) -}}
{{- if and (hasPrefix $folder $path) (gt (len $folder) (len $nearest.mountPath)) -}}
{{- $nearest = dict "mountPath" $folder "readOnly" (or .readOnly (hasKey $readable (toString .name))) -}}
{{- end -}}
{{- end -}}
{{- if or (not $nearest.mountPath) $nearest.readOnly (contains "/../" $path) -}}
{{- fail (printf "config.audit.file.path: %s is not in a volume that can be written, and the root file system is read-only; mount one there with auditVolume, or with extraVolumes and extraVolumeMounts" $path) -}}
{{- end -}}
{{- end -}}
{{- end }}

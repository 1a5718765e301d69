{{/*
Names and labels. Selectors and role references cannot change after the installation, so these templates cannot change.
*/}}

{{- define "cluster-registry.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "cluster-registry.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $full .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The daemon's objects: Deployment, Service, ServiceAccount, roles. */}}
{{- define "cluster-registry.controller" -}}
{{- include "cluster-registry.fullname" . }}-controller
{{- end -}}

{{/* "true" if the chart creates the daemon's ServiceAccount. A release that reuses old values has no such value. */}}
{{- define "cluster-registry.createServiceAccount" -}}
{{- if ne (toString (.Values.serviceAccount).create) "false" }}true{{ end -}}
{{- end -}}

{{/* The daemon's ServiceAccount. */}}
{{- define "cluster-registry.serviceAccountName" -}}
{{- $name := (.Values.serviceAccount).name -}}
{{- if not (or $name (include "cluster-registry.createServiceAccount" .)) -}}
{{- fail "serviceAccount.name: must name the account to use, because serviceAccount.create is false" -}}
{{- end -}}
{{- if eq (toString $name) (include "cluster-registry.reader" .) -}}
{{- fail "serviceAccount.name: must not be the reader's account, whose token the other clusters have" -}}
{{- end -}}
{{- default (include "cluster-registry.controller" .) $name -}}
{{- end -}}

{{/* The objects for reading by other clusters: ServiceAccount and roles. */}}
{{- define "cluster-registry.reader" -}}
{{- include "cluster-registry.controller" . }}-reader
{{- end -}}

{{- define "cluster-registry.selectorLabels" -}}
app.kubernetes.io/name: {{ include "cluster-registry.name" . }}-controller
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* The selector labels as a label selector in one string. */}}
{{- define "cluster-registry.podSelector" -}}
app.kubernetes.io/name={{ include "cluster-registry.name" . }}-controller,app.kubernetes.io/instance={{ .Release.Name }}
{{- end -}}

{{/* The image; a digest takes precedence over the tag. */}}
{{- define "cluster-registry.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "cluster-registry.labels" -}}
app: {{ include "cluster-registry.controller" . }}
{{ include "cluster-registry.selectorLabels" . }}
app.kubernetes.io/component: cluster-registry-controller
app.kubernetes.io/part-of: {{ include "cluster-registry.name" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{/* "true" if the chart creates roles and bindings. A release that reuses old values has no rbac. */}}
{{- define "cluster-registry.createRbac" -}}
{{- if ne (toString (.Values.rbac).create) "false" }}true{{ end -}}
{{- end -}}

{{/* "true" if Secrets are granted in the release's namespace only. A release that reuses old values has no rbac. */}}
{{- define "cluster-registry.narrowSecrets" -}}
{{- if (.Values.rbac).narrowSecrets }}true{{ end -}}
{{- end -}}

{{/* Constraints of topology; one without a selector counts the Pods of the release. */}}
{{- define "cluster-registry.topologySpreadConstraints" -}}
{{- $selector := dict "matchLabels" (include "cluster-registry.selectorLabels" . | fromYaml) -}}
{{- $found := list -}}
{{- range .Values.topologySpreadConstraints -}}
{{- $one := deepCopy . -}}
{{- if not (hasKey $one "labelSelector") }}{{ $one = set $one "labelSelector" $selector }}{{ end -}}
{{- $found = append $found $one -}}
{{- end -}}
{{- toYaml $found -}}
{{- end -}}

{{/*
"true" if the existing Deployment has parameters of a rolling update that this release does not own, such as defaults.
The API server refuses Recreate with such parameters, and server-side apply does not remove fields that it does not own.
*/}}
{{- define "cluster-registry.hasForeignRollingUpdate" -}}
{{- $live := lookup "apps/v1" "Deployment" .Release.Namespace (include "cluster-registry.controller" .) -}}
{{- if dig "spec" "strategy" "rollingUpdate" dict $live -}}
{{- $ours := false -}}
{{- $others := false -}}
{{- range dig "metadata" "managedFields" list $live -}}
{{- if contains "f:rollingUpdate" (toJson .) -}}
{{- if hasPrefix "helm" .manager }}{{ $ours = true }}{{ else }}{{ $others = true }}{{ end -}}
{{- end -}}
{{- end -}}
{{- if or $others (not $ours) }}true{{ end -}}
{{- end -}}
{{- end -}}

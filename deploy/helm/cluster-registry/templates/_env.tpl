{{/*
The environment of the container: the options of the daemon, from the values.
A release that reuses old values lacks the values that came later; then the option keeps its default.
*/}}
{{- define "cluster-registry.env" -}}
- name: NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: POD_SELECTOR
  value: {{ include "cluster-registry.podSelector" . | quote }}
{{- with .Values.localCluster.name }}
- name: PROVISION_LOCAL_CLUSTER
  value: {{ . | quote }}
{{- end }}
- name: MANAGE_LOCAL_CLUSTER_SECRET
  value: {{ .Values.localCluster.manageSecret | quote }}
- name: READER_SERVICE_ACCOUNT_NAME
  value: {{ include "cluster-registry.reader" . | quote }}
{{- if .Values.controller.multiclusterRuntimeLabel }}
- name: MULTICLUSTER_RUNTIME_LABEL
  value: "true"
{{- end }}
{{- with .Values.controller.clusterProfileNamespace }}
- name: CLUSTER_PROFILE_NAMESPACE
  value: {{ . | quote }}
{{- end }}
- name: READER_TOKEN_EXPIRATION_SECONDS
  value: {{ int .Values.controller.readerTokenExpirationSeconds | quote }}
{{- if hasKey .Values.controller "memberLeftTrustSeconds" }}
- name: MEMBER_LEFT_TRUST_SECONDS
  value: {{ int .Values.controller.memberLeftTrustSeconds | quote }}
{{- end }}
{{- if hasKey .Values.controller "stabilizationWindowSeconds" }}
- name: STABILIZATION_WINDOW_SECONDS
  value: {{ int .Values.controller.stabilizationWindowSeconds | quote }}
{{- end }}
{{- if hasKey .Values.controller "memberAbsenceSeconds" }}
- name: MEMBER_ABSENCE_SECONDS
  value: {{ int .Values.controller.memberAbsenceSeconds | quote }}
{{- end }}
- name: NETWORK_NAME
  value: {{ .Values.controller.network.name | quote }}
- name: DELETION_LIMIT_PERCENT
  value: {{ .Values.controller.deletionLimitPercent | quote }}
{{- with .Values.controller.syncedRules }}
- name: SYNCED_RULES_ENABLED
  value: {{ .enabled | quote }}
{{- with .kinds }}
- name: SYNCED_RULES_KINDS
  value: {{ join "," . | quote }}
{{- end }}
{{- with .namespaces }}
- name: SYNCED_RULES_NAMESPACES
  value: {{ join "," . | quote }}
{{- end }}
{{- end }}
{{- with (.Values.controller.closed).kinds }}
- name: CLOSED_KINDS
  value: {{ join "," . | quote }}
{{- end }}
{{- with (.Values.controller.closed).namespaces }}
- name: CLOSED_NAMESPACES
  value: {{ join "," . | quote }}
{{- end }}
{{- with .Values.controller.ignoredNamespaceContent }}
- name: IGNORED_NAMESPACE_CONTENT
  value: {{ join "," . | quote }}
{{- end }}
{{- with .Values.controller.apiServerEndpointAddress }}
- name: APISERVER_ENDPOINT_ADDRESS
  value: {{ . | quote }}
{{- end }}
- name: CORE_RESOURCES_SOURCE_ENABLED
  value: {{ .Values.controller.coreResourceSource.enabled | quote }}
- name: METRICS_ADDR
  value: {{ printf ":%d" (int .Values.service.port) | quote }}
- name: HEALTH_ADDR
  value: {{ printf ":%d" (int .Values.health.port) | quote }}
- name: LOG_FORMAT
  value: {{ .Values.controller.log.format | quote }}
- name: LOG_VERBOSITY
  value: {{ int .Values.controller.log.verbosity | quote }}
{{- end -}}

{{/* The same and the variables of extraEnv. Server-side apply refuses two variables of one name. */}}
{{- define "cluster-registry.allEnv" -}}
{{- $env := include "cluster-registry.env" . -}}
{{ $env }}
{{- $names := list -}}
{{- range fromYamlArray $env }}{{ $names = append $names .name }}{{ end -}}
{{- range .Values.extraEnv }}
{{- if has .name $names }}
{{- fail (printf "extraEnv: %s is set twice, or by the chart: use the chart's value for it" .name) }}
{{- end }}
{{- $names = append $names .name }}
{{ list . | toYaml }}
{{- end }}
{{- end -}}

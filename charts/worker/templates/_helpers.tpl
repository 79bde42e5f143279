{{- define "worker.fullname" -}}
{{- $name := .Release.Name -}}
{{- if not (contains .Chart.Name $name) -}}{{- $name = printf "%s-%s" $name .Chart.Name -}}{{- end -}}
{{- $name | trunc 53 | trimSuffix "-" -}}
{{- end }}

{{- define "worker.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "worker.labels" -}}
{{ include "worker.selectorLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- end }}

{{- define "worker.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "worker.fullname" .) -}}
{{- end }}

{{- define "worker.endpointPort" -}}
{{- $endpoint := .Values.aws.endpoint -}}
{{- if regexMatch ":[0-9]+$" $endpoint -}}
{{- regexFind "[0-9]+$" $endpoint -}}
{{- else if hasPrefix "https://" $endpoint -}}
443
{{- else -}}
80
{{- end -}}
{{- end }}

{{- /*
Return what is there before the Deployment and is deleted after it: pods that still answer keep their account, addresses and rules.
Read by deployment tools (https://kpt.dev/reference/annotations/depends-on/), Pulumi for one; Helm has an order of its own.
*/}}
{{- define "worker.dependsOn" -}}
{{- $name := include "worker.fullname" . -}}
{{- $objects := list -}}
{{- if .Values.serviceAccount.create }}
{{- $objects = append $objects (printf "/namespaces/%s/ServiceAccount/%s" .Release.Namespace (include "worker.serviceAccountName" .)) }}
{{- end }}
{{- if .Values.networkPolicy.enabled }}
{{- $objects = append $objects (printf "networking.k8s.io/namespaces/%s/NetworkPolicy/%s" .Release.Namespace $name) }}
{{- end }}
{{- join "," $objects }}
{{- end }}

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

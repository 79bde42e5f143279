{{/*
The init containers that bring models from S3 to the pod's disk. A release: one that ends. In place a second one stays beside the
server (a native sidecar) and fetches what a rollout brings; the first is then the same program, up to where a server can start.
*/}}
{{- define "triton.fetchContainers" -}}
{{- $following := eq (include "triton.following" .) "true" -}}
- name: fetch
  {{- include "triton.fetcher" . | nindent 2 }}
  args:
    {{- if $following }}
    - follow
    - --once
    {{- else }}
    - fetch
    - {{ .Values.release.id | quote }}
    {{- end }}
    {{- include "triton.fetcherArgs" . | nindent 4 }}
    # The server's own port, so that whatever scrapes the pod sees how far it is.
    - --serve=$(POD_IP):8002
  resources:
    # It ends before the server starts, and a pod asks for the larger of both: the server's CPUs cost it nothing.
    {{- $fetching := dict "cpu" (toString .Values.resources.cpu) "memory" .Values.modelRepository.fetch.memory }}
    {{- $_ := set $fetching "ephemeral-storage" (printf "%sMi" (include "triton.ephemeralMebibytes" .)) }}
    requests:
      {{- toYaml $fetching | nindent 6 }}
    limits:
      {{- toYaml $fetching | nindent 6 }}
{{- if $following }}
- name: follow
  # Beside the server to its end, and ended after it.
  restartPolicy: Always
  {{- include "triton.fetcher" . | nindent 2 }}
  args:
    - follow
    {{- include "triton.fetcherArgs" . | nindent 4 }}
    # Also at the loopback address, to which the API server's port forward leads: rollouts ask it so.
    - --serve=0.0.0.0:8003
  ports:
    - name: models
      containerPort: 8003
      protocol: TCP
  resources:
    requests:
      {{- toYaml .Values.modelRepository.fetch.follower | nindent 6 }}
    limits:
      {{- toYaml .Values.modelRepository.fetch.follower | nindent 6 }}
{{- end }}
{{- end }}

{{/* What both have. */}}
{{- define "triton.fetcher" -}}
image: {{ .Values.modelRepository.fetch.image | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
command: [python, -m, modelctl]
# `kubectl describe pod` shows why a release did not arrive.
terminationMessagePolicy: FallbackToLogsOnError
env:
  - name: POD_IP
    valueFrom:
      fieldRef:
        fieldPath: status.podIP
  - name: AWS_REGION
    value: {{ .Values.modelRepository.s3.region | quote }}
  - name: AWS_EC2_METADATA_DISABLED
    value: "true"
  - name: HOME
    value: /tmp
  {{- with .Values.modelRepository.fetch.signers }}
  - name: MODEL_SIGNERS
    value: {{ . | quote }}
  {{- end }}
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
securityContext:
  {{- include "triton.containerSecurityContext" . | nindent 2 }}
volumeMounts:
  - name: models
    mountPath: /models
  {{- if .Values.modelRepository.fetch.cache.claimName }}
  - name: cache
    mountPath: /cache
  {{- end }}
  - name: tmp
    mountPath: /tmp
{{- end }}

{{- define "triton.fetcherArgs" -}}
- {{ printf "--bucket=%s" .Values.modelRepository.s3.bucket | quote }}
{{- with .Values.modelRepository.s3.endpoint }}
- {{ printf "--endpoint-url=%s" . | quote }}
{{- end }}
- --to=/models
{{- if .Values.modelRepository.fetch.cache.claimName }}
- --cache=/cache
- --cache-gib={{ int64 .Values.modelRepository.fetch.cache.gib }}
{{- end }}
{{- end }}

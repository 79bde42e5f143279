{{/* Names leave room for "-headless" within the 63 characters of a Service. */}}
{{- define "triton.fullname" -}}
{{- $name := .Release.Name -}}
{{- if not (contains .Chart.Name $name) -}}{{- $name = printf "%s-%s" $name .Chart.Name -}}{{- end -}}
{{- $name | trunc 53 | trimSuffix "-" -}}
{{- end }}

{{- define "triton.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "triton.labels" -}}
{{ include "triton.selectorLabels" . }}
app.kubernetes.io/version: {{ .Values.server.version | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- end }}

{{- define "triton.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "triton.fullname" .) -}}
{{- end }}

{{/* Ceiling of (index . 0) / (index . 1), in integers. */}}
{{- define "triton.ceilDiv" -}}
{{- $divisor := int64 (index . 1) -}}
{{- div (add (int64 (index . 0)) (sub $divisor 1)) $divisor -}}
{{- end }}

{{/* Mi or Gi quantity -> MiB. */}}
{{- define "triton.mebibytes" -}}
{{- if hasSuffix "Gi" . -}}
{{- mul (trimSuffix "Gi" . | int64) 1024 -}}
{{- else -}}
{{- trimSuffix "Mi" . | int64 -}}
{{- end -}}
{{- end }}

{{/* CPU quantity -> thousandths. */}}
{{- define "triton.millicpus" -}}
{{- if hasSuffix "m" . -}}
{{- trimSuffix "m" . | int64 -}}
{{- else -}}
{{- round (mulf (float64 .) 1000) 0 | int64 -}}
{{- end -}}
{{- end }}

{{/* Threads for as much work as the pod has CPUs. */}}
{{- define "triton.threads" -}}
{{- include "triton.ceilDiv" (list (include "triton.millicpus" .Values.resources.cpu) 1000) -}}
{{- end }}

{{/* Those of one of the instances that run on the CPU. */}}
{{- define "triton.threadsPerInstance" -}}
{{- $each := mul 1000 (int64 .Values.server.cpuInstances) -}}
{{- include "triton.ceilDiv" (list (include "triton.millicpus" .Values.resources.cpu) $each) -}}
{{- end }}

{{/* Names of the variables that the values add, with blanks between. */}}
{{- define "triton.extraVariables" -}}
{{- range .Values.extraEnv }}{{ .name }} {{ end -}}
{{- end }}

{{/* The values give ONNX Runtime thread pools of their own. */}}
{{- define "triton.ownThreadPools" -}}
{{- range .Values.server.extraArgs -}}
{{- if regexMatch "^--backend-config=onnxruntime,(enable-global-threadpool|int(ra|er)_op_thread_count)=" . -}}true{{- end -}}
{{- end -}}
{{- end }}

{{/* A volume holds the release; else Triton copies it from S3. */}}
{{- define "triton.mounted" -}}
{{- if .Values.modelRepository.volume.claimName -}}true{{- end -}}
{{- end }}

{{/* An init container copies the release from S3 to the pod's disk, and Triton reads files only. */}}
{{- define "triton.fetched" -}}
{{- if .Values.modelRepository.fetch.image -}}true{{- end -}}
{{- end }}

{{/* A container beside the server copies there what rollouts in place bring. */}}
{{- define "triton.following" -}}
{{- if and (include "triton.fetched" .) (include "triton.inPlace" .) -}}true{{- end -}}
{{- end }}

{{/* Releases that are on a pod's disk at a time: in place the next one too, from its copy to the end of its rollout. */}}
{{- define "triton.fetchedCopies" -}}
{{- ternary 2 1 (eq (include "triton.following" .) "true") -}}
{{- end }}

{{/*
The repository: the folder that the release is mounted at, or a URL. Triton's S3 client takes another endpoint only inside the
URL and recognises it only with a port.
*/}}
{{- define "triton.modelRepository" -}}
{{- $s3 := .Values.modelRepository.s3 -}}
{{- if include "triton.mounted" . -}}
/models/{{ .Values.release.id }}
{{- else if include "triton.fetched" . -}}
/models/current
{{- else if $s3.endpoint -}}
{{- $endpoint := $s3.endpoint -}}
{{- if not (regexMatch ":[0-9]+$" $endpoint) -}}
{{- $endpoint = printf "%s:%s" $endpoint (include "triton.endpointPort" .) -}}
{{- end -}}
s3://{{ $endpoint }}/{{ $s3.bucket }}/{{ $s3.prefix }}
{{- else -}}
s3://{{ $s3.bucket }}/{{ $s3.prefix }}
{{- end -}}
{{- end }}

{{- define "triton.endpointPort" -}}
{{- $endpoint := .Values.modelRepository.s3.endpoint -}}
{{- if regexMatch ":[0-9]+$" $endpoint -}}
{{- regexFind "[0-9]+$" $endpoint -}}
{{- else if hasPrefix "https://" $endpoint -}}
443
{{- else -}}
80
{{- end -}}
{{- end }}

{{/* Port of the trace endpoint; empty without one. The schema asks for it. */}}
{{- define "triton.tracingPort" -}}
{{- with .Values.tracing.endpoint -}}
{{- regexFind ":[0-9]+/" . | trimAll ":/" -}}
{{- end -}}
{{- end }}

{{/* Namespace of the trace endpoint; empty unless its host is `<service>.<namespace>.svc`, with or without a domain. */}}
{{- define "triton.tracingNamespace" -}}
{{- with regexFind "^http://[a-z0-9-]+[.][a-z0-9-]+[.]svc[.:]" .Values.tracing.endpoint -}}
{{- index (splitList "." .) 1 -}}
{{- end -}}
{{- end }}

{{- define "triton.inPlace" -}}
{{- if eq .Values.rollout.mode "in-place" -}}true{{- end -}}
{{- end }}

{{/*
Bytes that a pod has to hold. Rounded up to a power of two where releases change under running pods: the next release of
about the same size must not change the pod template, which would restart what in-place rollouts keep running.
*/}}
{{- define "triton.releaseBytes" -}}
{{- $bytes := int64 .Values.release.bytes -}}
{{- if include "triton.inPlace" . -}}
{{- $power := 1 | int64 -}}
{{- range until 45 -}}{{- if lt $power $bytes -}}{{- $power = mul $power 2 -}}{{- end -}}{{- end -}}
{{- $bytes = $power -}}
{{- end -}}
{{- $bytes -}}
{{- end }}

{{/*
Copies of the release on disk. In place a model has two versions for a while, and Triton downloads both of them for each.
*/}}
{{- define "triton.cacheCopies" -}}
{{- mul (int64 .Values.modelCache.headroom) (ternary 4 1 (eq .Values.rollout.mode "in-place")) -}}
{{- end }}

{{/* Longest download of the release, in seconds. */}}
{{- define "triton.downloadSeconds" -}}
{{- include "triton.ceilDiv" (list (include "triton.releaseBytes" .) .Values.startup.bytesPerSecond) -}}
{{- end }}

{{/* Longest start before the server's, in seconds: the init container that fetches the release; both, amid a rollout in place. */}}
{{- define "triton.fetchSeconds" -}}
{{- if include "triton.fetched" . -}}
{{- mul (include "triton.downloadSeconds" . | int64) (include "triton.fetchedCopies" . | int64) -}}
{{- else -}}
0
{{- end -}}
{{- end }}

{{/* Longest start of the server, in seconds: ports open only when the last model is loaded. */}}
{{- define "triton.startupSeconds" -}}
{{- $download := ternary 0 (include "triton.downloadSeconds" . | int64) (eq (include "triton.fetched" .) "true") | int64 -}}
{{- $load := mul (int64 .Values.startup.secondsPerModel) (len .Values.release.models) -}}
{{- $build := mul (int64 .Values.startup.secondsPerEngine) (int64 .Values.startup.engines) -}}
{{- max (int64 .Values.startup.minimumSeconds) (add $download $load $build) -}}
{{- end }}

{{- define "triton.startupFailureThreshold" -}}
{{- include "triton.ceilDiv" (list (include "triton.startupSeconds" .) .Values.startup.periodSeconds) -}}
{{- end }}

{{/*
Time until SIGTERM, in seconds. The server of the OpenAI-compatible front end has an exit timeout of 30 s, and no flag for
another one: what takes longer has to end before.
*/}}
{{- define "triton.preStopSeconds" -}}
{{- $beyond := ternary (max 0 (sub (int64 .Values.drain.longestRequestSeconds) 30)) 0 (eq (include "triton.openai" .) "true") -}}
{{- add (int64 .Values.drain.preStopSeconds) $beyond -}}
{{- end }}

{{/* Exit timeout, in seconds: the models are unloaded inside it, after the last request, and take 3 to 5 s (docs/drain.md). */}}
{{- define "triton.exitTimeoutSeconds" -}}
{{- add (int64 .Values.drain.longestRequestSeconds) 5 -}}
{{- end }}

{{/* Grace period, in seconds. It runs from the deletion, so that the preStop hook is part of it. */}}
{{- define "triton.graceSeconds" -}}
{{- $drain := .Values.drain -}}
{{- add (int64 $drain.preStopSeconds) (include "triton.exitTimeoutSeconds" . | int64) (int64 $drain.longestBatchSeconds) 10 -}}
{{- end }}

{{/* Progress deadline, in seconds. Without a spare GPU the old pod drains before the new one gets its place. */}}
{{- define "triton.progressDeadlineSeconds" -}}
{{- $rollout := .Values.rollout -}}
{{- $start := add (include "triton.fetchSeconds" . | int64) (include "triton.startupSeconds" . | int64) -}}
{{- $deadline := add (int64 $rollout.placementSeconds) $start (int64 $rollout.minReadySeconds) -}}
{{- if not $rollout.spareGpu -}}{{- $deadline = add $deadline (include "triton.graceSeconds" . | int64) -}}{{- end -}}
{{- $deadline -}}
{{- end }}

{{/* Longest rollout, in seconds: pods are replaced one by one. Of one pod where the chart does not know their number. */}}
{{- define "triton.rolloutSeconds" -}}
{{- mul (include "triton.progressDeadlineSeconds" . | int64) (max 1 (int64 .Values.replicaCount)) -}}
{{- end }}

{{/*
Cache volume, in MiB; none for a release that is mounted. S3 downloads are (versions of a model)² copies; a release holds one
version of each. A fetched release is there once, in place twice, with room beside it for directories, journals and half-used blocks.
*/}}
{{- define "triton.cacheMebibytes" -}}
{{- if include "triton.mounted" . -}}
0
{{- else if include "triton.fetched" . -}}
{{- $bytes := mul (include "triton.releaseBytes" . | int64) (include "triton.fetchedCopies" . | int64) -}}
{{- add (include "triton.mebibytes" .Values.modelCache.minimumSize | int64) (include "triton.ceilDiv" (list $bytes 1048576) | int64) -}}
{{- else -}}
{{- $bytes := mul (include "triton.releaseBytes" . | int64) (include "triton.cacheCopies" . | int64) -}}
{{- $wanted := include "triton.ceilDiv" (list $bytes 1048576) | int64 -}}
{{- max (include "triton.mebibytes" .Values.modelCache.minimumSize | int64) $wanted -}}
{{- end -}}
{{- end }}

{{/* Ephemeral storage, in MiB: the volumes on disk and 256 MiB for the container's rotated logs. */}}
{{- define "triton.ephemeralMebibytes" -}}
{{- $own := add (include "triton.cacheMebibytes" . | int64) (include "triton.mebibytes" .Values.tmp.size | int64) 256 -}}
{{- add $own (include "triton.emptyDirMebibytes" (list . false) | int64) -}}
{{- end }}

{{/* Size of the further emptyDir volumes, in MiB: those in memory, or those on disk. */}}
{{- define "triton.emptyDirMebibytes" -}}
{{- $inMemory := index . 1 -}}
{{- $total := 0 | int64 -}}
{{- range (index . 0).Values.extraVolumes -}}
{{- with .emptyDir -}}
{{- if eq (eq (.medium | default "") "Memory") $inMemory -}}{{- $total = add $total (include "triton.mebibytes" .sizeLimit | int64) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- $total -}}
{{- end }}

{{/* What a container of the pod may do. */}}
{{- define "triton.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* A container beside the server: what it asks for is all that it may have, and it has the server's rights. */}}
{{- define "triton.extraContainer" -}}
{{- $resources := dict "requests" .resources "limits" .resources -}}
{{- $rights := include "triton.containerSecurityContext" . | fromYaml -}}
{{- list (merge (dict "resources" $resources "securityContext" $rights) (omit . "resources")) | toYaml -}}
{{- end }}

{{/* The OpenAI-compatible front end has the server in its own process, and takes few of its flags. */}}
{{- define "triton.openai" -}}
{{- if .Values.server.openai.tokenizer -}}true{{- end -}}
{{- end }}

{{- define "triton.command" -}}
{{- if include "triton.openai" . -}}
{{- list "python3" "/opt/tritonserver/python/openai/openai_frontend/main.py" | toJson -}}
{{- else -}}
{{- concat (list "sh" "-c" (include "triton.start" .) "start") .Values.server.command | toJson -}}
{{- end -}}
{{- end }}

{{/*
Start the server with a random key before its control APIs. It stays the pod's when the container restarts.
*/}}
{{- define "triton.start" -}}
{{- $restricted := "model-repository,shared-memory,trace,logging" -}}
set -eu
file=/run/triton/admin-key
if ! [ -s $file ]; then (umask 077; od -An -N32 -v -tx1 /dev/urandom | tr -d ' \n' > $file); fi
key=$(cat $file)
[ ${#key} = 64 ] || { echo "$file has no key of 64 digits" >&2; exit 1; }
exec "$@" --http-restricted-api={{ $restricted }}:x-admin-key=$key --grpc-restricted-protocol={{ $restricted }}:admin-key=$key
{{- end }}

{{- define "triton.openaiArgs" -}}
- {{ printf "--model-repository=%s" (include "triton.modelRepository" .) | quote }}
- --model-control-mode=none
- {{ printf "--tokenizer=%s" .Values.server.openai.tokenizer | quote }}
# It has the metrics on the same port, where everything else looks for them.
- --openai-port=8002
- --http-max-input-size={{ int64 .Values.server.httpMaxInputBytes }}
# Probes, gRPC and clients of Triton's own APIs.
- --enable-kserve-frontends
{{- end }}

{{/*
Arguments. The restricted APIs (`triton.start`) stay behind a key although the mode `none` has no model control at all, because
trace, logging and shared memory settings would be open otherwise. In place, every model of the repository is loaded at the
start: explicit mode without a model to load would be ready and answer 404. Of a part of a release, in place too, the models
that are named are loaded, and with an ensemble its steps.
*/}}
{{- define "triton.args" -}}
{{- $server := .Values.server -}}
- {{ printf "--model-repository=%s" (include "triton.modelRepository" .) | quote }}
{{- if .Values.release.part }}
- --model-control-mode=explicit
{{- range $model, $version := .Values.release.models }}
- {{ printf "--load-model=%s" $model | quote }}
{{- end }}
{{- else if include "triton.inPlace" . }}
- --model-control-mode=explicit
- --load-model=*
{{- else }}
- --model-control-mode=none
{{- end }}
{{- with .Values.release.configName }}
- --model-config-name={{ . }}
{{- end }}
- --exit-on-error=true
- --exit-timeout-secs={{ include "triton.exitTimeoutSeconds" . }}
{{- if $server.disableAutoCompleteConfig }}
- --disable-auto-complete-config
{{- end }}
- --log-format=ISO8601
- --http-max-input-size={{ int64 $server.httpMaxInputBytes }}
- --grpc-max-connection-age={{ mul (int64 $server.grpcMaxConnectionAgeSeconds) 1000 }}
- --grpc-max-connection-age-grace={{ mul (int64 .Values.drain.longestRequestSeconds) 1000 }}
- --metrics-interval-ms={{ int64 $server.metricsIntervalMs }}
{{- range $setting, $on := $server.metricsConfig }}
{{- if $on }}
- --metrics-config={{ $setting }}=true
{{- end }}
{{- end }}
{{- if int64 $server.responseCacheBytes }}
- --cache-config=local,size={{ int64 $server.responseCacheBytes }}
{{- end }}
{{- if $server.rateLimiter.resources }}
- --rate-limit=execution_count
{{- range $resource, $count := $server.rateLimiter.resources }}
- --rate-limit-resource={{ $resource }}:{{ int64 $count }}
{{- end }}
{{- end }}
{{- with .Values.tracing }}
{{- if .endpoint }}
- --trace-config=mode=opentelemetry
- --trace-config=level=TIMESTAMPS
- --trace-config=rate={{ int64 .rate }}
- --trace-config=opentelemetry,url={{ .endpoint }}
- --trace-config=opentelemetry,resource=service.name={{ .serviceName }}
{{- end }}
{{- end }}
{{- /* One pool for all sessions: else each has a thread for every CPU of the node, and a number given here counts for none. */}}
{{- if not (include "triton.ownThreadPools" .) }}
- --backend-config=onnxruntime,enable-global-threadpool=1
- --backend-config=onnxruntime,intra_op_thread_count={{ include "triton.threads" . }}
- --backend-config=onnxruntime,inter_op_thread_count=1
{{- end }}
{{- range $server.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{/*
Readiness of every model of the release, in any version where rollouts change it under the pod. The server's own ready
endpoint is no such thing: it answers 400 during every load and stays there after one failed load, while inference works.
*/}}
{{- define "triton.readinessCheck" -}}
{{- $paths := list -}}
{{- range $model, $version := .Values.release.models -}}
{{- $paths = append $paths (include "triton.inPlace" $ | empty | ternary (printf "%s/versions/%d" $model (int64 $version)) $model) -}}
{{- range index $.Values.release.others $model -}}
{{- $paths = append $paths (printf "%s/versions/%d" $model (int64 .)) -}}
{{- end -}}
{{- end -}}
{{- if eq (len $paths) 1 -}}
httpGet:
  path: /v2/models/{{ first $paths }}/ready
  port: http
{{- else -}}
exec:
  command:
    - sh
    - -c
    - |
      exec curl --fail --fail-early --silent --noproxy '*' --max-time {{ int64 .Values.readiness.timeoutSeconds }} \
        --write-out '%{onerror}%{url} is not ready (HTTP status %{http_code})\n' \
        "http://${POD_IP}:8000/v2/models/{{ printf "{%s}" (join "," $paths) }}/ready"
{{- end -}}
{{- end }}

{{- /*
Return what is there before the Deployment and is deleted after it: pods that still answer keep their account, addresses and rules.
Read by deployment tools (https://kpt.dev/reference/annotations/depends-on/), Pulumi for one; Helm has an order of its own.
*/}}
{{- define "triton.dependsOn" -}}
{{- $name := include "triton.fullname" . -}}
{{- $objects := list -}}
{{- if .Values.serviceAccount.create }}
{{- $objects = append $objects (printf "/namespaces/%s/ServiceAccount/%s" .Release.Namespace (include "triton.serviceAccountName" .)) }}
{{- end }}
{{- if .Values.networkPolicy.enabled }}
{{- $objects = append $objects (printf "networking.k8s.io/namespaces/%s/NetworkPolicy/%s" .Release.Namespace $name) }}
{{- end }}
{{- range list $name (printf "%s-headless" $name) (printf "%s-metrics" $name) }}
{{- $objects = append $objects (printf "/namespaces/%s/Service/%s" $.Release.Namespace .) }}
{{- end }}
{{- range .Values.extraObjects }}
{{- $group := contains "/" .apiVersion | ternary (first (splitList "/" .apiVersion)) "" }}
{{- $objects = append $objects (printf "%s/namespaces/%s/%s/%s" $group $.Release.Namespace .kind .metadata.name) }}
{{- end }}
{{- join "," $objects }}
{{- end }}

{{- /* Pulumi waits until a Service has pods, and these are there before them; for the pods it waits with the Deployment. */}}
{{- define "triton.serviceAnnotations" -}}
pulumi.com/skipAwait: "true"
{{- end }}

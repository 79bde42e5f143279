{{/*
What a schema cannot say, or cannot say in words: required values and contradictions. All of them are reported at once,
one sentence a line, each beginning with the path of the value.
*/}}
{{- define "triton.validate" -}}
{{- $problems := concat (include "triton.missing" . | fromJsonArray) (include "triton.contradictions" . | fromJsonArray) (include "triton.extras" . | fromJsonArray) (include "triton-eks.problems" . | fromJsonArray) -}}
{{- if $problems -}}{{- fail (join "\n" $problems) -}}{{- end -}}
{{- end }}

{{- define "triton.missing" -}}
{{- $v := .Values -}}
{{- $problems := list -}}
{{- if not $v.image.digest -}}
{{- $problems = append $problems "image.digest: is missing; give the digest of the image (sha256:…), tags are not supported" -}}
{{- end -}}
{{- if not (include "triton.mounted" .) -}}
{{- if not $v.modelRepository.s3.bucket -}}
{{- $problems = append $problems "modelRepository.s3.bucket: is missing; give the bucket of the model releases, or a volume that holds one (modelRepository.volume.claimName)" -}}
{{- end -}}
{{- if not $v.modelRepository.s3.prefix -}}
{{- $problems = append $problems "modelRepository.s3.prefix: is missing; give the prefix of one release, such as releases/<release.id>" -}}
{{- end -}}
{{- if not $v.modelRepository.s3.region -}}
{{- $problems = append $problems "modelRepository.s3.region: is missing; without it Triton's S3 client calls us-east-1" -}}
{{- end -}}
{{- end -}}
{{- if and (not $v.release.id) (ne $v.rollout.mode "in-place") -}}
{{- $problems = append $problems "release.id: is missing; give the 64 hexadecimal digits of a model release" -}}
{{- end -}}
{{- if not $v.release.models -}}
{{- $problems = append $problems "release.models: is empty; a release without models would be ready and answer 404 to every request" -}}
{{- end -}}
{{- if not (int64 $v.release.bytes) -}}
{{- $problems = append $problems "release.bytes: is 0; give the size of the release, it sizes the startup probe and the cache volume" -}}
{{- end -}}
{{- if not $v.resources.cpu -}}
{{- $problems = append $problems "resources.cpu: is missing; give the CPUs that a pod requests" -}}
{{- end -}}
{{- if not $v.resources.memory -}}
{{- $problems = append $problems "resources.memory: is missing; give the memory of a pod (request and limit), such as 12Gi" -}}
{{- end -}}
{{- if and (not $v.serviceAccount.create) (not $v.serviceAccount.name) -}}
{{- $problems = append $problems "serviceAccount.name: is missing; name the existing service account, or set serviceAccount.create to true" -}}
{{- end -}}
{{- $problems | toJson -}}
{{- end }}

{{- define "triton.contradictions" -}}
{{- $v := .Values -}}
{{- $problems := list -}}

{{- $given := not (kindIs "invalid" $v.replicaCount) -}}
{{- if and (eq $v.autoscaling.owner "none") (not $given) -}}
{{- $problems = append $problems "replicaCount: is missing; nobody else sets the number of pods while autoscaling.owner is none" -}}
{{- end -}}
{{- if and (ne $v.autoscaling.owner "none") $given -}}
{{- $problems = append $problems (printf "replicaCount: is %d, but autoscaling.owner is %s; leave it out, each apply would reset the autoscaler" (int64 $v.replicaCount) $v.autoscaling.owner) -}}
{{- end -}}

{{- if lt ($v.server.version | replace "." "" | int) 2607 -}}
{{- $problems = append $problems (printf "server.version: %s is refused; NVIDIA's security bulletins name holes of servers before 26.07" $v.server.version) -}}
{{- end -}}

{{- range $resource := keys $v.resources | sortAlpha -}}
{{- if hasPrefix "nvidia.com/" $resource -}}
{{- $problems = append $problems (printf "resources.%s: GPUs are given once, by gpu.count and gpu.resourceName" $resource) -}}
{{- end -}}
{{- end -}}
{{- if and (ne $v.gpu.resourceName "nvidia.com/gpu") (gt (int64 $v.gpu.count) 1) -}}
{{- $problems = append $problems (printf "gpu.count: is %d, but a pod can use one %s only; more shares add no capacity" (int64 $v.gpu.count) $v.gpu.resourceName) -}}
{{- end -}}

{{- if $v.resources.memory -}}
{{- $memory := include "triton.mebibytes" $v.resources.memory | int64 -}}
{{- $cache := include "triton.responseCacheMebibytes" . | int64 -}}
{{- $shm := ternary (include "triton.mebibytes" $v.shm.size | int64) 0 $v.shm.enabled -}}
{{- $inMemory := include "triton.emptyDirMebibytes" (list . true) | int64 -}}
{{- $needed := add $shm $inMemory (include "triton.mebibytes" $v.shm.memoryMargin | int64) $cache -}}
{{- if gt (int64 $needed) $memory -}}
{{- $cached := ternary (printf ", %dMi of response cache (server.responseCacheBytes)" $cache) "" (gt $cache 0) -}}
{{- if gt $inMemory 0 -}}{{- $cached = printf "%s, %dMi of volumes in memory (extraVolumes)" $cached $inMemory -}}{{- end -}}
{{- if $v.shm.enabled -}}
{{- $problems = append $problems (printf "shm.size: %s of /dev/shm%s and %s for the server (shm.memoryMargin) do not fit into resources.memory, which is %s" $v.shm.size $cached $v.shm.memoryMargin $v.resources.memory) -}}
{{- else -}}
{{- $problems = append $problems (printf "shm.memoryMargin: %s for the server%s do not fit into resources.memory, which is %s" $v.shm.memoryMargin (replace ", " " and " $cached) $v.resources.memory) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- if gt (int64 $v.drain.longestBatchSeconds) (int64 $v.drain.longestRequestSeconds) -}}
{{- $problems = append $problems (printf "drain.longestBatchSeconds: is %d, more than drain.longestRequestSeconds (%d); a batch is a part of its requests" (int64 $v.drain.longestBatchSeconds) (int64 $v.drain.longestRequestSeconds)) -}}
{{- end -}}

{{- with $v.modelRepository.volume -}}
{{- if .claimName -}}
{{- range $key, $given := $v.modelRepository.s3 -}}
{{- if $given -}}
{{- $problems = append $problems (printf "modelRepository.s3.%s: is %s, but the release is in a volume (modelRepository.volume.claimName); leave it out, or leave the volume out" $key $given) -}}
{{- end -}}
{{- end -}}
{{- if eq $v.rollout.mode "in-place" -}}
{{- $problems = append $problems (printf "modelRepository.volume.claimName: is %s, but rollout.mode is in-place; a mounted release does not change under running pods, use S3 or the mode rolling" .claimName) -}}
{{- end -}}
{{- if $v.modelRepository.fetch.image -}}
{{- $problems = append $problems (printf "modelRepository.fetch.image: is %s, but the release is in a volume (modelRepository.volume.claimName); leave it out, or leave the volume out" $v.modelRepository.fetch.image) -}}
{{- end -}}
{{- else if .subPath -}}
{{- $problems = append $problems (printf "modelRepository.volume.subPath: is %s, but there is no volume; give its claimName, or leave it out" .subPath) -}}
{{- end -}}
{{- end -}}

{{- if and $v.modelRepository.fetch.cache.claimName (not $v.modelRepository.fetch.image) -}}
{{- $problems = append $problems (printf "modelRepository.fetch.cache.claimName: is %s, but nothing fetches into it; give modelRepository.fetch.image, or leave it out" $v.modelRepository.fetch.cache.claimName) -}}
{{- end -}}
{{- with $v.modelRepository.fetch.image -}}
{{- if eq $v.rollout.mode "in-place" -}}
{{- if and $v.modelRepository.s3.prefix (ne $v.modelRepository.s3.prefix "live") -}}
{{- $problems = append $problems (printf "modelRepository.s3.prefix: is %s, but modelctl follows live; give that, or leave modelRepository.fetch.image out" $v.modelRepository.s3.prefix) -}}
{{- end -}}
{{- else if and $v.release.id $v.modelRepository.s3.prefix (ne $v.modelRepository.s3.prefix (printf "releases/%s" $v.release.id)) -}}
{{- $problems = append $problems (printf "modelRepository.s3.prefix: is %s, but modelctl fetches releases/%s; give that, or leave modelRepository.fetch.image out" $v.modelRepository.s3.prefix $v.release.id) -}}
{{- end -}}
{{- if and $v.resources.memory (gt (include "triton.mebibytes" $v.modelRepository.fetch.memory | int64) (include "triton.mebibytes" $v.resources.memory | int64)) -}}
{{- $problems = append $problems (printf "modelRepository.fetch.memory: %s is more than resources.memory, which is %s; the pod would ask for more to start than to serve" $v.modelRepository.fetch.memory $v.resources.memory) -}}
{{- end -}}
{{- end -}}

{{- if regexMatch "\\.\\.|\\.-|-\\.|^([0-9]{1,3}\\.){3}[0-9]{1,3}$" $v.modelRepository.s3.bucket -}}
{{- $problems = append $problems (printf "modelRepository.s3.bucket: %s is not the name of a bucket, in which no dot stands beside a dot or a hyphen, and which is no address" $v.modelRepository.s3.bucket) -}}
{{- end -}}
{{- with $v.modelRepository.s3.endpoint -}}
{{- if not (regexMatch "^https?://[0-9A-Za-z]([0-9A-Za-z-]*[0-9A-Za-z])?(\\.[0-9A-Za-z]([0-9A-Za-z-]*[0-9A-Za-z])?)*(:[0-9]{1,5})?$" .) -}}
{{- $problems = append $problems (printf "modelRepository.s3.endpoint: %s is not http://host:port or https://host:port; bucket and path have their own values" .) -}}
{{- end -}}
{{- end -}}
{{- if eq $v.rollout.mode "in-place" -}}
{{- if $v.release.configName -}}
{{- $problems = append $problems (printf "release.configName: is %s, but rollout.mode is in-place; leave it out, the rollout writes the config that a model is served with" $v.release.configName) -}}
{{- end -}}
{{- if and $v.release.id (eq (last (splitList "/" $v.modelRepository.s3.prefix)) $v.release.id) -}}
{{- $problems = append $problems (printf "modelRepository.s3.prefix: %s is one release, but rollout.mode is in-place; give the prefix that rollouts write to, such as live" $v.modelRepository.s3.prefix) -}}
{{- end -}}
{{- else if and $v.modelRepository.s3.prefix $v.release.id (ne (last (splitList "/" $v.modelRepository.s3.prefix)) $v.release.id) -}}
{{- $problems = append $problems (printf "modelRepository.s3.prefix: %s does not end in release.id (%s); the pods would be labelled with a release that they do not serve" $v.modelRepository.s3.prefix $v.release.id) -}}
{{- end -}}

{{- if include "triton.openai" . -}}
{{- $flags := dict "rollout.mode" (ternary "in-place" "" (eq $v.rollout.mode "in-place")) "release.configName" $v.release.configName "release.part" $v.release.part "server.responseCacheBytes" (int64 $v.server.responseCacheBytes) "server.rateLimiter.resources" $v.server.rateLimiter.resources "server.extraArgs" $v.server.extraArgs "tracing.endpoint" $v.tracing.endpoint -}}
{{- range $path := keys $flags | sortAlpha -}}
{{- if get $flags $path -}}
{{- $problems = append $problems (printf "%s: the server of the OpenAI-compatible front end (server.openai) cannot be told it; leave it out" $path) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- $known := dict -}}
{{- range .Files.Lines "flags.txt" -}}
{{- $_ := set $known (first (splitList " " .)) . -}}
{{- end -}}
{{- $given := dict -}}
{{- range $v.server.extraArgs -}}
{{- if regexMatch "^--(help|model-(repository|store|control-mode|namespacing)|repository-|load-model|exit-|strict-|disable-auto-complete|(allow|reuse)-|(http|grpc|metrics)-(port|address)|http-(restricted|max-input)|grpc-(restricted|max-connection)|metrics-(config|interval)|log-format|rate-limit|cache-config=local|response-cache|model-config-name)" . -}}
{{- $problems = append $problems (printf "server.extraArgs: %s is set by the chart or would undo what the chart relies on; use the values of the chart" .) -}}
{{- else if not (get $known (first (splitList "=" .))) -}}
{{- $problems = append $problems (printf "server.extraArgs: tritonserver has no flag %s, or none that is not deprecated, and would not start; see tritonserver --help" (first (splitList "=" .))) -}}
{{- else -}}
{{- $name := first (splitList "=" .) -}}
{{- $value := trimPrefix "=" (trimPrefix $name .) -}}
{{- $takes := get $known $name -}}
{{- if eq . $name -}}
{{- $problems = append $problems (printf "server.extraArgs: %s has no value; write %s=<value>" $name $name) -}}
{{- else if and (contains " whole" $takes) (not (regexMatch "^-?[0-9]+$" $value)) -}}
{{- $problems = append $problems (printf "server.extraArgs: %s: '%s' is not a whole number; give digits only" $name $value) -}}
{{- else if and (contains " truth" $takes) (not (has (lower $value) (list "true" "false" "on" "off" "1" "0"))) -}}
{{- $problems = append $problems (printf "server.extraArgs: %s: '%s' is no truth value; give true or false" $name $value) -}}
{{- end -}}
{{- if and (hasKey $given $name) (not (contains " repeatable" $takes)) -}}
{{- $problems = append $problems (printf "server.extraArgs: %s is there twice; give it once" $name) -}}
{{- end -}}
{{- $_ := set $given $name true -}}
{{- end -}}
{{- end -}}

{{- if $v.tracing.endpoint -}}
{{- if eq (include "triton.tracingPort" .) "80" -}}
{{- $problems = append $problems (printf "tracing.endpoint: %s is on port 80, on which the instance metadata answers; give the collector another port, such as 4318" $v.tracing.endpoint) -}}
{{- end -}}
{{- range $v.server.extraArgs -}}
{{- if hasPrefix "--trace-" . -}}
{{- $problems = append $problems (printf "server.extraArgs: %s is set by the chart while tracing.endpoint is given; use the values under tracing" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- $seen := dict -}}
{{- range $model := keys $v.release.models | sortAlpha -}}
{{- with get $seen (lower $model) -}}
{{- $problems = append $problems (printf "release.models.%s: differs from %s in upper and lower case only, and no release has both" $model .) -}}
{{- end -}}
{{- $_ := set $seen (lower $model) $model -}}
{{- end -}}
{{- range $model, $versions := $v.release.others -}}
{{- $served := index $v.release.models $model -}}
{{- if not $served -}}
{{- $problems = append $problems (printf "release.others.%s: there is no such model in release.models" $model) -}}
{{- else -}}
{{- range $versions -}}
{{- if ge (int64 .) (int64 $served) -}}
{{- $problems = append $problems (printf "release.others.%s: %d is not lower than %d, which answers requests that name no version" $model (int64 .) (int64 $served)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- range $probe := list "readiness" "liveness" -}}
{{- with index $v $probe -}}
{{- if gt (int64 .timeoutSeconds) (int64 .periodSeconds) -}}
{{- $problems = append $problems (printf "%s.timeoutSeconds: is %d, more than %s.periodSeconds (%d); probes would overtake each other" $probe (int64 .timeoutSeconds) $probe (int64 .periodSeconds)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- range $path, $address := dict "image.repository" (first (splitList "/" $v.image.repository)) "tracing.endpoint" (trimSuffix "/v1/traces" $v.tracing.endpoint) "modelRepository.s3.endpoint" $v.modelRepository.s3.endpoint -}}
{{- $port := regexFind "[0-9]+$" (regexFind ":[0-9]+$" $address) -}}
{{- if and $port (or (gt (int64 $port) 65535) (lt (int64 $port) 1)) -}}
{{- $problems = append $problems (printf "%s: %s is no port, which is 1 to 65535" $path $port) -}}
{{- end -}}
{{- end -}}

{{- $names := list -}}
{{- range $v.extraEnv -}}
{{- if has .name $names -}}
{{- $problems = append $problems (printf "extraEnv: %s is there twice; give it once" .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- if and (hasKey . "value") (hasKey . "valueFrom") -}}
{{- $problems = append $problems (printf "extraEnv: %s has a value and valueFrom; give one of them" .name) -}}
{{- end -}}
{{- if or (hasPrefix "LD_" .name) (has .name (list "PATH" "PYTHONPATH" "PYTHONHOME")) -}}
{{- $problems = append $problems (printf "extraEnv: %s decides what the server and its backends load; the image has its own" .name) -}}
{{- end -}}
{{- if hasPrefix "NVIDIA_" .name -}}
{{- $problems = append $problems (printf "extraEnv: %s is decided by the device plugin; overriding it breaks the isolation of GPUs" .name) -}}
{{- end -}}
{{- if has .name (list "POD_IP" "HOME" "AWS_REGION" "AWS_DEFAULT_REGION" "AWS_EC2_METADATA_DISABLED" "TRITON_AWS_MOUNT_DIRECTORY") -}}
{{- $problems = append $problems (printf "extraEnv: %s is set by the chart" .name) -}}
{{- end -}}
{{- if hasPrefix "AWS_ENDPOINT_URL" .name -}}
{{- $problems = append $problems (printf "extraEnv: %s is given by modelRepository.s3.endpoint, which the NetworkPolicy knows too" .name) -}}
{{- end -}}
{{- if and (not $v.modelRepository.s3.endpoint) (or (hasPrefix "AWS_CONTAINER_" .name) (has .name (list "AWS_ROLE_ARN" "AWS_WEB_IDENTITY_TOKEN_FILE" "AWS_PROFILE" "AWS_CONFIG_FILE" "AWS_SHARED_CREDENTIALS_FILE"))) -}}
{{- $problems = append $problems (printf "extraEnv: %s would win over the role of the service account (serviceAccount.annotations)" .name) -}}
{{- end -}}
{{- if regexMatch "^AWS_(ACCESS|SECRET|SESSION)_" .name -}}
{{- if not $v.modelRepository.s3.endpoint -}}
{{- $problems = append $problems (printf "extraEnv: %s would win over the role of the service account; AWS is reached without static credentials" .name) -}}
{{- else if not .valueFrom -}}
{{- $problems = append $problems (printf "extraEnv: %s has its value in the clear; take it from a Secret (valueFrom)" .name) -}}
{{- end -}}
{{- end -}}
{{- if eq .name "CUDA_VISIBLE_DEVICES" -}}
{{- $problems = append $problems "extraEnv: CUDA_VISIBLE_DEVICES is decided by the device plugin; overriding it breaks the isolation of GPUs" -}}
{{- end -}}
{{- end -}}
{{- $problems | toJson -}}
{{- end }}

{{/*
What a schema cannot say, or cannot say in words: required values and contradictions. All of them are reported at once,
one sentence a line, each beginning with the path of the value.
*/}}
{{- define "worker.validate" -}}
{{- $v := .Values -}}
{{- $problems := list -}}
{{- if not $v.image.digest -}}
{{- $problems = append $problems "image.digest: is missing; give the digest of the image (sha256:…), tags are not supported" -}}
{{- end -}}
{{- if not $v.aws.region -}}
{{- $problems = append $problems "aws.region: is missing; give the region of the queue and the bucket" -}}
{{- end -}}
{{- if not $v.queue.url -}}
{{- $problems = append $problems "queue.url: is missing; give the URL of the request queue" -}}
{{- end -}}
{{- if not (int64 $v.queue.visibilityTimeoutSeconds) -}}
{{- $problems = append $problems "queue.visibilityTimeoutSeconds: is missing; give the visibility timeout of the queue" -}}
{{- end -}}
{{- if not $v.bucket -}}
{{- $problems = append $problems "bucket: is missing; give the bucket of inputs and results" -}}
{{- end -}}
{{- if not (int64 $v.concurrency) -}}
{{- $problems = append $problems "concurrency: is missing; give the requests at Triton at a time, such as twice its batch" -}}
{{- end -}}
{{- if not (int64 $v.inputMiB) -}}
{{- $problems = append $problems "inputMiB: is missing; give the MiB of objects in memory at a time, a quarter of what resources.memory leaves for them" -}}
{{- end -}}
{{- if not $v.resources.cpu -}}
{{- $problems = append $problems "resources.cpu: is missing; give the CPUs of a pod (request and limit)" -}}
{{- end -}}
{{- if not $v.resources.memory -}}
{{- $problems = append $problems "resources.memory: is missing; give the memory of a pod (request and limit), such as 512Mi" -}}
{{- end -}}
{{- if and (not $v.serviceAccount.create) (not $v.serviceAccount.name) -}}
{{- $problems = append $problems "serviceAccount.name: is missing; name the existing service account, or set serviceAccount.create to true" -}}
{{- end -}}

{{- if regexMatch "\\.\\.|\\.-|-\\.|^([0-9]{1,3}\\.){3}[0-9]{1,3}$" $v.bucket -}}
{{- $problems = append $problems (printf "bucket: %s is not the name of a bucket, in which no dot stands beside a dot or a hyphen, and which is no address" $v.bucket) -}}
{{- end -}}
{{- range $index, $url := prepend $v.queue.replyUrls $v.queue.url -}}
{{- $path := ternary (printf "queue.replyUrls[%d]" (sub $index 1)) "queue.url" (gt $index 0) -}}
{{- if and (regexMatch "^https?://[^/]*\\.amazonaws\\.com(\\.cn)?(/|$)" $url) (not (regexMatch "^https?://[^/]*/[0-9]{12}/[A-Za-z0-9_-]{1,80}$" $url)) -}}
{{- $problems = append $problems (printf "%s: %s is not the URL of a queue of SQS that is not FIFO, like https://sqs.us-west-2.amazonaws.com/123456789012/requests" $path $url) -}}
{{- end -}}
{{- $there := regexReplaceAll "^https://sqs\\.([a-z0-9-]+)\\.amazonaws\\.com(\\.cn)?/.*$" $url "${1}" -}}
{{- if and $v.aws.region (ne $there $url) (ne $there $v.aws.region) -}}
{{- $problems = append $problems (printf "%s: is in %s, and aws.region is %s; requests signed for one are refused by the other" $path $there $v.aws.region) -}}
{{- end -}}
{{- if and (gt $index 0) (eq $url $v.queue.url) -}}
{{- $problems = append $problems (printf "%s: is the queue of requests, and each answer would be a request; name another" $path) -}}
{{- end -}}
{{- end -}}
{{- $address := regexFind "[^/]*$" $v.triton.url -}}
{{- $port := regexFind "[0-9]+$" $address -}}
{{- if or (not $port) (gt (int64 $port) 65535) -}}
{{- $problems = append $problems (printf "triton.url: %s has no port from 1 to 65535; give one like dns:///triton-headless.triton.svc.cluster.local:8001" $v.triton.url) -}}
{{- else if $v.networkPolicy.enabled -}}
{{- if ne (int64 $port) (int64 $v.triton.port) -}}
{{- $problems = append $problems (printf "triton.port: is %d, but triton.url asks port %s; the NetworkPolicy would stop every request" (int64 $v.triton.port) $port) -}}
{{- end -}}
{{- $service := regexFind "^[a-z0-9-]+\\.[a-z0-9-]+\\.svc[.:]" $address -}}
{{- if and $service (ne (index (splitList "." $service) 1) $v.triton.namespace) -}}
{{- $problems = append $problems (printf "triton.namespace: is %s, but triton.url asks a Service of %s; the NetworkPolicy would stop every request" $v.triton.namespace (index (splitList "." $service) 1)) -}}
{{- end -}}
{{- end -}}
{{- range $path, $address := dict "image.repository" (first (splitList "/" $v.image.repository)) "aws.endpoint" $v.aws.endpoint -}}
{{- $port := regexFind "[0-9]+$" (regexFind ":[0-9]+$" $address) -}}
{{- if and $port (or (gt (int64 $port) 65535) (lt (int64 $port) 1)) -}}
{{- $problems = append $problems (printf "%s: %s is no port, which is 1 to 65535" $path $port) -}}
{{- end -}}
{{- end -}}

{{- $given := not (kindIs "invalid" $v.replicaCount) -}}
{{- if and (eq $v.autoscaling.owner "none") (not $given) -}}
{{- $problems = append $problems "replicaCount: is missing; nobody else sets the number of pods while autoscaling.owner is none" -}}
{{- end -}}
{{- if and (ne $v.autoscaling.owner "none") $given -}}
{{- $problems = append $problems (printf "replicaCount: is %d, but autoscaling.owner is %s; leave it out, each apply would reset the autoscaler" (int64 $v.replicaCount) $v.autoscaling.owner) -}}
{{- end -}}

{{- $least := add (int64 $v.queue.pollSeconds) (int64 $v.triton.longestRequestSeconds) -}}
{{- if le (int64 $v.drain.graceSeconds) (int64 $least) -}}
{{- $problems = append $problems (printf "drain.graceSeconds: is %d; the poll under way (%d) and the longest request (%d) have to fit into it" (int64 $v.drain.graceSeconds) (int64 $v.queue.pollSeconds) (int64 $v.triton.longestRequestSeconds)) -}}
{{- end -}}
{{- if and (int64 $v.queue.visibilityTimeoutSeconds) (le (int64 $v.queue.visibilityTimeoutSeconds) (int64 $v.triton.longestRequestSeconds)) -}}
{{- $problems = append $problems (printf "queue.visibilityTimeoutSeconds: is %d, not more than triton.longestRequestSeconds (%d); a second worker would do the same work" (int64 $v.queue.visibilityTimeoutSeconds) (int64 $v.triton.longestRequestSeconds)) -}}
{{- end -}}
{{- if gt (int64 $v.probes.timeoutSeconds) (int64 $v.probes.periodSeconds) -}}
{{- $problems = append $problems (printf "probes.timeoutSeconds: is %d, more than probes.periodSeconds (%d); probes would overtake each other" (int64 $v.probes.timeoutSeconds) (int64 $v.probes.periodSeconds)) -}}
{{- end -}}
{{- $problems = concat $problems (include "triton-eks.problems" . | fromJsonArray) -}}
{{- if $problems -}}{{- fail (join "\n" $problems) -}}{{- end -}}
{{- end }}

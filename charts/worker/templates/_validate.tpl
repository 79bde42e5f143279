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
{{- if not $v.resources.cpu -}}
{{- $problems = append $problems "resources.cpu: is missing; give the CPUs of a pod (request and limit)" -}}
{{- end -}}
{{- if not $v.resources.memory -}}
{{- $problems = append $problems "resources.memory: is missing; give the memory of a pod (request and limit), such as 512Mi" -}}
{{- end -}}
{{- if and (not $v.serviceAccount.create) (not $v.serviceAccount.name) -}}
{{- $problems = append $problems "serviceAccount.name: is missing; name the existing service account, or set serviceAccount.create to true" -}}
{{- end -}}

{{- $role := get $v.serviceAccount.annotations "eks.amazonaws.com/role-arn" -}}
{{- if and $role (not (regexMatch "^arn:aws(-cn|-us-gov)?:iam::[0-9]{12}:role/([!-~]+/)?[A-Za-z0-9_+=,.@-]{1,64}$" $role)) -}}
{{- $problems = append $problems (printf "serviceAccount.annotations.eks.amazonaws.com/role-arn: %s is not the ARN of an IAM role, like arn:aws:iam::123456789012:role/triton-worker" $role) -}}
{{- end -}}
{{- $there := regexReplaceAll "^https://sqs\\.([a-z0-9-]+)\\.amazonaws\\.com(\\.cn)?/.*$" $v.queue.url "${1}" -}}
{{- if and $v.aws.region (ne $there $v.queue.url) (ne $there $v.aws.region) -}}
{{- $problems = append $problems (printf "queue.url: is in %s, and aws.region is %s; requests signed for one are refused by the other" $there $v.aws.region) -}}
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
{{- if $problems -}}{{- fail (join "\n" $problems) -}}{{- end -}}
{{- end }}

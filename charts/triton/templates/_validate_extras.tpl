{{/*
What people add to the pod: it may not take the place of what the chart puts there, nor weaken it. A JSON array of sentences.
*/}}
{{- define "triton.extras" -}}
{{- $v := .Values -}}
{{- $problems := list -}}

{{- range $key := keys $v.podLabels | sortAlpha -}}
{{- if or (has $key (list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/version" "pod-template-hash")) (hasPrefix "triton-eks/" $key) -}}
{{- $problems = append $problems (printf "podLabels.%s: is set by the chart or by Kubernetes; use another key" $key) -}}
{{- end -}}
{{- end -}}
{{- range $key := keys $v.podAnnotations | sortAlpha -}}
{{- if or (eq $key "kubectl.kubernetes.io/default-container") (hasPrefix "triton-eks/" $key) -}}
{{- $problems = append $problems (printf "podAnnotations.%s: is set by the chart; use another key" $key) -}}
{{- else if hasPrefix "container.apparmor.security.beta.kubernetes.io/" $key -}}
{{- $problems = append $problems (printf "podAnnotations.%s: the pod's profile is the runtime's, as the restricted standard wants it; leave it out" $key) -}}
{{- end -}}
{{- end -}}

{{- $volumes := list "models" "tmp" -}}
{{- if not (include "triton.openai" $) -}}{{- $volumes = append $volumes "admin" -}}{{- end -}}
{{- if $v.shm.enabled -}}{{- $volumes = append $volumes "shm" -}}{{- end -}}
{{- range $index, $volume := $v.extraVolumes -}}
{{- if has $volume.name (list "shm" "models" "tmp" "cache" "admin") -}}
{{- $problems = append $problems (printf "extraVolumes[%d].name: %s is a volume of the chart; use another name" $index $volume.name) -}}
{{- else if has $volume.name $volumes -}}
{{- $problems = append $problems (printf "extraVolumes[%d].name: %s is there twice; give each its own" $index $volume.name) -}}
{{- end -}}
{{- $volumes = append $volumes $volume.name -}}
{{- end -}}

{{- $mounts := list (dict "path" "extraVolumeMounts" "mounts" $v.extraVolumeMounts) -}}
{{- range $index, $mount := $v.extraVolumeMounts -}}
{{- if or (has $mount.mountPath (list "/dev" "/dev/shm" "/proc" "/sys" "/etc" "/run" "/run/triton" "/tmp" "/models" "/opt" "/opt/tritonserver" "/opt/tritonserver/bin" "/opt/tritonserver/lib" "/opt/tritonserver/backends")) (hasPrefix "/models/" $mount.mountPath) (hasPrefix "/var/run/secrets/" $mount.mountPath) -}}
{{- $problems = append $problems (printf "extraVolumeMounts[%d].mountPath: %s would hide what the server needs; use a path of its own, like /opt/tritonserver/backends/mine or /mnt/data" $index $mount.mountPath) -}}
{{- end -}}
{{- end -}}

{{- $names := list "triton" "fetch" "follow" -}}
{{- $ports := dict "8000" "triton" "8001" "triton" "8002" "triton" -}}
{{- if include "triton.following" . -}}{{- $_ := set $ports "8003" "follow" -}}{{- end -}}
{{- range $list := list "extraInitContainers" "extraContainers" -}}
{{- range $index, $container := get $v $list -}}
{{- $path := printf "%s[%d]" $list $index -}}
{{- if has $container.name $names -}}
{{- $problems = append $problems (printf "%s.name: there is a container %s already; use another name" $path $container.name) -}}
{{- end -}}
{{- $names = append $names $container.name -}}
{{- if and (eq $list "extraContainers") (hasKey $container "restartPolicy") -}}
{{- $problems = append $problems (printf "%s.restartPolicy: is of extraInitContainers, where Always makes one go on beside the server; leave it out" $path) -}}
{{- end -}}
{{- range $container.ports -}}
{{- $port := int64 .containerPort | toString -}}
{{- with get $ports $port -}}
{{- $problems = append $problems (printf "%s.ports: %s is the port of %s, and containers of a pod share them; use another" $path $port .) -}}
{{- end -}}
{{- $_ := set $ports $port $container.name -}}
{{- end -}}
{{- range $container.env -}}
{{- if and (hasKey . "value") (hasKey . "valueFrom") -}}
{{- $problems = append $problems (printf "%s.env: %s has a value and valueFrom; give one of them" $path .name) -}}
{{- end -}}
{{- if and (regexMatch "^AWS_(ACCESS|SECRET|SESSION)_" .name) (not .valueFrom) -}}
{{- $problems = append $problems (printf "%s.env: %s has its value in the clear; take it from a Secret (valueFrom)" $path .name) -}}
{{- end -}}
{{- if or (hasPrefix "NVIDIA_" .name) (eq .name "CUDA_VISIBLE_DEVICES") -}}
{{- $problems = append $problems (printf "%s.env: %s would give the container the server's GPUs past the device plugin; leave it out" $path .name) -}}
{{- end -}}
{{- end -}}
{{- $mounts = append $mounts (dict "path" (printf "%s.volumeMounts" $path) "mounts" ($container.volumeMounts | default list)) -}}
{{- end -}}
{{- end -}}
{{- range $mounts -}}
{{- $path := .path -}}
{{- $taken := list -}}
{{- range $index, $mount := .mounts -}}
{{- if not (has $mount.name $volumes) -}}
{{- $problems = append $problems (printf "%s[%d].name: there is no volume %s; the pod has %s" $path $index $mount.name ($volumes | sortAlpha | join ", ")) -}}
{{- end -}}
{{- if has $mount.mountPath $taken -}}
{{- $problems = append $problems (printf "%s[%d].mountPath: %s is there twice; mount one volume there" $path $index $mount.mountPath) -}}
{{- end -}}
{{- $taken = append $taken $mount.mountPath -}}
{{- end -}}
{{- end -}}

{{- $objects := list -}}
{{- range $index, $object := $v.extraObjects -}}
{{- $path := printf "extraObjects[%d]" $index -}}
{{- $id := printf "%s %s" $object.kind $object.metadata.name -}}
{{- if has $id $objects -}}
{{- $problems = append $problems (printf "%s: %s is there twice; give it once" $path $id) -}}
{{- end -}}
{{- $objects = append $objects $id -}}
{{- if eq $object.kind "Secret" -}}
{{- $problems = append $problems (printf "%s.kind: a Secret's content does not belong into values; make it elsewhere, or from a store by an ExternalSecret" $path) -}}
{{- end -}}
{{- if or (regexMatch "^Cluster[A-Z]" $object.kind) (has $object.kind (list "Namespace" "PersistentVolume" "StorageClass" "PriorityClass" "CustomResourceDefinition" "APIService" "MutatingWebhookConfiguration" "ValidatingWebhookConfiguration")) -}}
{{- $problems = append $problems (printf "%s.kind: a %s is of the whole cluster, and not of the release's namespace; make it elsewhere" $path $object.kind) -}}
{{- end -}}
{{- with $object.metadata.namespace -}}
{{- if ne . $.Release.Namespace -}}
{{- $problems = append $problems (printf "%s.metadata.namespace: %s is not the release's, %s; leave it out" $path . $.Release.Namespace) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $problems | toJson -}}
{{- end }}

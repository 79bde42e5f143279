{{/*
What Kubernetes and AWS would refuse later, in the values that both charts of this repository have.
The two charts have the same file. A JSON array of sentences, each beginning with the path of the value.
*/}}
{{- define "triton-eks.problems" -}}
{{- $v := .Values -}}
{{- $problems := list -}}

{{- $annotations := $v.serviceAccount.annotations -}}
{{- $role := get $annotations "eks.amazonaws.com/role-arn" -}}
{{- if and (hasKey $annotations "eks.amazonaws.com/role-arn") (not (regexMatch "^arn:aws(-cn|-us-gov)?:iam::[0-9]{12}:role/([!-~]+/)?[A-Za-z0-9_+=,.@-]{1,64}$" $role)) -}}
{{- $problems = append $problems (printf "serviceAccount.annotations.eks.amazonaws.com/role-arn: %s is not the ARN of an IAM role, like arn:aws:iam::123456789012:role/%s" ($role | default "''") .Release.Name) -}}
{{- end -}}

{{- $peers := list -}}
{{- range $key := list "clients" "monitoring" -}}
{{- range $index, $peer := get $v.networkPolicy $key | default list -}}
{{- $peers = append $peers (dict "path" (printf "networkPolicy.%s[%d]" $key $index) "peer" $peer "incoming" true) -}}
{{- end -}}
{{- end -}}
{{- range $rule, $egress := $v.networkPolicy.extraEgress -}}
{{- range $index, $peer := get $egress "to" | default list -}}
{{- $peers = append $peers (dict "path" (printf "networkPolicy.extraEgress[%d].to[%d]" $rule $index) "peer" $peer "incoming" false) -}}
{{- end -}}
{{- range $index, $port := get $egress "ports" | default list -}}
{{- if and (hasKey $port "endPort") (lt (int64 (get $port "endPort")) (int64 (get $port "port"))) -}}
{{- $problems = append $problems (printf "networkPolicy.extraEgress[%d].ports[%d].endPort: is %d, less than port (%d)" $rule $index (int64 $port.endPort) (int64 $port.port)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $peers -}}
{{- $path := printf "%s.ipBlock" .path -}}
{{- $peer := .peer -}}
{{- $incoming := .incoming -}}
{{- with $peer.ipBlock -}}
{{- $whole := include "triton-eks.range" .cidr | fromJson -}}
{{- if not $whole -}}
{{- $problems = append $problems (printf "%s.cidr: %s is not a range of addresses, like 10.0.0.0/16" $path .cidr) -}}
{{- else if and $incoming (lt (int64 $whole.length) 8) -}}
{{- $problems = append $problems (printf "%s.cidr: %s is the world, and nobody is asked who they are; give a range of /8 or narrower" $path .cidr) -}}
{{- end -}}
{{- $cidr := .cidr -}}
{{- range $index, $except := .except -}}
{{- $part := include "triton-eks.range" $except | fromJson -}}
{{- if not $part -}}
{{- $problems = append $problems (printf "%s.except[%d]: %s is not a range of addresses, like 10.0.1.0/24" $path $index $except) -}}
{{- else if $whole -}}
{{- $inside := and (eq $part.family $whole.family) (gt (int64 $part.length) (int64 $whole.length)) -}}
{{- if and $inside (eq $part.family "IPv4") -}}
{{- $addresses := 1 -}}
{{- range until (int (sub 32 (int64 $whole.length))) -}}{{- $addresses = mul $addresses 2 -}}{{- end -}}
{{- $inside = eq (div (int64 $part.number) $addresses) (div (int64 $whole.number) $addresses) -}}
{{- end -}}
{{- if not $inside -}}
{{- $problems = append $problems (printf "%s.except[%d]: %s is no part of %s; give a smaller range inside it" $path $index $except $cidr) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $selector := list "namespaceSelector" "podSelector" -}}
{{- if hasKey $peer $selector -}}
{{- $problems = append $problems (printf "%s.cidr: Kubernetes takes no %s beside an ipBlock; make two peers of it" $path $selector) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- range $index, $toleration := $v.tolerations -}}
{{- if and (eq (get $toleration "operator") "Exists") (get $toleration "value") -}}
{{- $problems = append $problems (printf "tolerations[%d].value: operator Exists takes none; leave it out, or use Equal" $index) -}}
{{- end -}}
{{- if and (not (get $toleration "key")) (ne (get $toleration "operator") "Exists") -}}
{{- $problems = append $problems (printf "tolerations[%d].key: is missing; only operator Exists may do without it" $index) -}}
{{- end -}}
{{- if and (hasKey $toleration "tolerationSeconds") (ne (get $toleration "effect") "NoExecute") -}}
{{- $problems = append $problems (printf "tolerations[%d].tolerationSeconds: is for effect NoExecute; leave it out" $index) -}}
{{- end -}}
{{- end -}}
{{- $problems | toJson -}}
{{- end }}

{{/*
A range of addresses as JSON: its family, its length, and for IPv4 its first address as a number. Without any: it is none.
*/}}
{{- define "triton-eks.range" -}}
{{- $found := dict -}}
{{- $address := first (splitList "/" .) -}}
{{- $length := last (splitList "/" .) -}}
{{- if regexMatch "^((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\\.){3}(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])/([0-9]|[12][0-9]|3[0-2])$" . -}}
{{- $number := 0 -}}
{{- range splitList "." $address -}}{{- $number = add (mul $number 256) (int64 .) -}}{{- end -}}
{{- $found = dict "family" "IPv4" "length" (int64 $length) "number" $number -}}
{{- else if and (contains ":" .) (regexMatch "^([0-9]|[1-9][0-9]|1[01][0-9]|12[0-8])$" $length) -}}
{{- $groups := len (regexFindAll "[0-9A-Fa-f]+" $address -1) -}}
{{- $short := len (regexFindAll "::" $address -1) -}}
{{- $wrong := regexMatch ":::|^:[^:]|[^:]:$|[0-9A-Fa-f]{5}|[^0-9A-Fa-f:]" $address -}}
{{- if and (not $wrong) (or (and (eq $short 0) (eq $groups 8)) (and (eq $short 1) (le $groups 7))) -}}
{{- $found = dict "family" "IPv6" "length" (int64 $length) -}}
{{- end -}}
{{- end -}}
{{- $found | toJson -}}
{{- end }}

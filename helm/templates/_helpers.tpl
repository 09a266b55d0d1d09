{{- define "guided.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 48 | trimSuffix "-" -}}
{{- end -}}

{{- define "guided.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 48 | trimSuffix "-" -}}
{{- else if contains (include "guided.name" .) .Release.Name -}}
{{- .Release.Name | trunc 48 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "guided.name" .) | trunc 48 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "guided.selector" -}}
app.kubernetes.io/name: {{ include "guided.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "guided.labels" -}}
{{ include "guided.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "guided.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default (printf "%s-%s" .Chart.AppVersion (ternary "gpu" "cpu" .Values.gpu.enabled)) }}
{{- end -}}
{{- end -}}

{{- define "guided.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "guided.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "guided.servedName" -}}
{{- .Values.model.servedName | default .Values.model.name -}}
{{- end -}}

{{/* What clients connect to: the router where there is one, else the pods. */}}
{{- define "guided.frontComponent" -}}
{{- ternary "router" "server" .Values.router.enabled -}}
{{- end -}}

{{/* Kind and apiVersion of what is scaled. */}}
{{- define "guided.scaleTarget" -}}
{{- if .Values.multiNode.enabled -}}
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
{{- else -}}
apiVersion: apps/v1
kind: Deployment
{{- end }}
name: {{ include "guided.fullname" . }}
{{- end -}}

{{/* Where `helm test` finds a key of a caller: {name, key}, or nothing where the API is open. */}}
{{- define "guided.testKey" -}}
{{- if .Values.test.keySecret.name -}}
{{ toYaml .Values.test.keySecret }}
{{- else if and .Values.auth.existingSecret .Values.auth.key -}}
{{ toYaml (dict "name" .Values.auth.existingSecret "key" .Values.auth.key) }}
{{- end -}}
{{- end -}}

{{/* Processes that compile. The server would take a quarter of the host's CPUs: here it is of those that the pod asks for. */}}
{{- define "guided.compileWorkers" -}}
{{- $cpu := toString (dig "requests" "cpu" "0" .Values.resources) -}}
{{- $whole := ternary (divf (float64 (trimSuffix "m" $cpu)) 1000) (float64 $cpu) (hasSuffix "m" $cpu) -}}
{{- max 2 (int (floor (divf $whole 4))) -}}
{{- end -}}

{{/* "true" where the volume of the weights takes no writes; nothing otherwise. */}}
{{- define "guided.readOnlyWeights" -}}
{{- if and (eq .Values.weights.source "pvc") (eq .Values.weights.pvc.accessMode "ReadOnlyMany") -}}true{{- end -}}
{{- end -}}

{{- define "guided.containerSecurity" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "guided.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ .Values.runAsUser }}
runAsGroup: {{ .Values.runAsUser }}
fsGroup: {{ .Values.runAsUser }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{/* Combinations that a schema cannot express: refused with the reason, never half applied. */}}
{{- define "guided.check" -}}
{{- $v := .Values -}}
{{- $gpus := mul $v.parallelism.tensor $v.parallelism.pipeline $v.parallelism.data -}}
{{- $nodes := ternary $v.multiNode.size 1 $v.multiNode.enabled -}}
{{- if and $v.gpu.enabled (ne (int $gpus) (int (mul $v.gpu.count $nodes))) -}}
{{- fail (printf "parallelism asks for %d GPUs (tensor x pipeline x data), but gpu.count x nodes is %d" (int $gpus) (int (mul $v.gpu.count $nodes))) -}}
{{- end -}}
{{- if and $v.multiNode.enabled (not $v.gpu.enabled) -}}
{{- fail "multiNode needs gpu.enabled" -}}
{{- end -}}
{{- if and $v.multiNode.enabled (gt (int $v.parallelism.data) 1) -}}
{{- fail "multiNode spreads tensor and pipeline parallelism over nodes; for data parallelism use more replicas" -}}
{{- end -}}
{{- $d := $v.drain -}}
{{- if gt (int (add $d.preStopSeconds $d.shutdownTimeoutSeconds 10)) (int $d.terminationGracePeriodSeconds) -}}
{{- fail (printf "drain: preStopSeconds %d + shutdownTimeoutSeconds %d + 10 s to exit do not fit terminationGracePeriodSeconds %d" (int $d.preStopSeconds) (int $d.shutdownTimeoutSeconds) (int $d.terminationGracePeriodSeconds)) -}}
{{- end -}}
{{- $a := $v.autoscaling -}}
{{- if and (ne $a.mode "none") (gt (int $a.minReplicas) (int $a.maxReplicas)) -}}
{{- fail "autoscaling.minReplicas is above maxReplicas" -}}
{{- end -}}
{{- if and (eq (int $a.minReplicas) 0) (eq $a.mode "hpa") -}}
{{- fail "an HPA does not scale to zero; use autoscaling.mode keda" -}}
{{- end -}}
{{- if and (eq (int $a.minReplicas) 0) (eq $a.mode "keda") (not $v.router.enabled) -}}
{{- fail "scaling to zero needs router.enabled: at zero pods only the router can count the requests that call for one" -}}
{{- end -}}
{{- if and $v.router.enabled (gt (int (ternary $v.replicas $a.maxReplicas (eq $a.mode "none"))) (int $v.router.maxServers)) -}}
{{- fail "router.maxServers is below the number of pods" -}}
{{- end -}}
{{- if and (eq $v.weights.source "s3") (not (hasPrefix "s3://" $v.weights.s3.uri)) -}}
{{- fail "weights.source s3 needs weights.s3.uri (s3://bucket/prefix)" -}}
{{- end -}}
{{- if and (eq $v.weights.source "s3") (ne $v.model.name "/weights/model") -}}
{{- fail "weights.source s3 copies the model to /weights/model: set model.name to that, and model.servedName to what clients say" -}}
{{- end -}}
{{- if and $v.warmUp.constraints $v.warmUp.existingConfigMap -}}
{{- fail "warmUp: give constraints or existingConfigMap, not both" -}}
{{- end -}}
{{- range $name, $text := $v.warmUp.constraints -}}
{{- if not (regexMatch "^[A-Za-z0-9_.-]+\\.(schema\\.json|tag\\.json|regex|lark|gbnf|choices)$" $name) -}}
{{- fail (printf "warmUp.constraints: %s is no constraint by its name: there are *.schema.json, *.tag.json, *.regex, *.lark, *.gbnf, *.choices" $name) -}}
{{- end -}}
{{- if not (kindIs "string" $text) -}}
{{- fail (printf "warmUp.constraints: %s has to be text" $name) -}}
{{- end -}}
{{- end -}}
{{- if and $v.multiNode.enabled (not $v.indexCache.redis.existingSecret) -}}
{{- fail "multiNode needs indexCache.redis.existingSecret: ranks on other nodes do not see the leader's disk, and find what it compiled there only" -}}
{{- end -}}
{{- $isOpened := or $v.ingress.enabled (ne $v.service.type "ClusterIP") -}}
{{- if and $isOpened $v.networkPolicy.enabled (not $v.networkPolicy.from) -}}
{{- fail "ingress.enabled and service.type other than ClusterIP bring callers from outside this namespace, whom the NetworkPolicy keeps out: name them in networkPolicy.from, such as the namespace of the ingress controller, or {ipBlock: {cidr: 0.0.0.0/0}} for everybody" -}}
{{- end -}}
{{- if and $v.auth.keysFile (not $v.auth.key) (not $v.test.keySecret.name) -}}
{{- fail "helm test needs a key to send: auth.keysFile has digests only, so name a secret with one in test.keySecret, or set auth.key" -}}
{{- end -}}
{{- if and (or $v.auth.keysFile $v.auth.adminKey) (not $v.auth.existingSecret) -}}
{{- fail "auth.keysFile and auth.adminKey are keys inside auth.existingSecret, which is empty" -}}
{{- end -}}
{{- if eq (int $v.admin.port) 8000 -}}
{{- fail "admin.port: 8000 is the port of the API" -}}
{{- end -}}
{{- $own := list "model" "host" "port" "served-model-name" "revision" "tensor-parallel-size" "pipeline-parallel-size" "data-parallel-size" "shutdown-timeout" "disable-access-log-for-endpoints" "nnodes" "node-rank" "master-addr" "headless" "api-key" -}}
{{- $tls := list "ssl-keyfile" "ssl-certfile" "ssl-ca-certs" "ssl-cert-reqs" "enable-ssl-refresh" "uds" -}}
{{- /* vLLM reads a flag with underscores, and from its beginning on, as the whole one. */ -}}
{{- range $given, $_ := $v.engine.args -}}
{{- range $name := $own -}}
{{- if hasPrefix (replace "_" "-" $given) $name -}}
{{- fail (printf "engine.args.%s is set by the chart from another value; see README.md" $given) -}}
{{- end -}}
{{- end -}}
{{- range $name := $tls -}}
{{- if hasPrefix (replace "_" "-" $given) $name -}}
{{- fail (printf "engine.args.%s: probes, router and service speak HTTP to port 8000 of the pod; TLS ends at the Ingress or the load balancer" $given) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (include "guided.readOnlyWeights" .) (not (and $v.weights.pvc.existingClaim (hasPrefix "/weights/" $v.model.name))) -}}
{{- fail "weights.pvc.accessMode ReadOnlyMany: nothing can be downloaded to it, so name a claim that has the model (weights.pvc.existingClaim) and its folder there (model.name /weights/...)" -}}
{{- end -}}
{{- end -}}

{{/* Command line of one pod. `role` is server, leader or worker; the last two are the parts of a group (multiNode). */}}
{{- define "guided.args" -}}
{{- $v := .root.Values -}}
- --model={{ $v.model.name }}
- --served-model-name={{ include "guided.servedName" .root }}
{{- with $v.model.revision }}
- --revision={{ . }}
{{- end }}
{{- if $v.gpu.enabled }}
- --tensor-parallel-size={{ $v.parallelism.tensor }}
- --pipeline-parallel-size={{ $v.parallelism.pipeline }}
- --data-parallel-size={{ $v.parallelism.data }}
{{- end }}
{{- if ne .role "server" }}
- --nnodes={{ $v.multiNode.size }}
- --node-rank={{ ternary "0" "$(LWS_WORKER_INDEX)" (eq .role "leader") }}
- --master-addr=$(LWS_LEADER_ADDRESS)
{{- end }}
{{- if eq .role "worker" }}
- --headless
{{- else }}
- --host=0.0.0.0
- --port=8000
- --shutdown-timeout={{ $v.drain.shutdownTimeoutSeconds }}
- --disable-access-log-for-endpoints={{ list $v.probes.readyPath $v.probes.livePath "/metrics" | uniq | join "," }}
{{- end }}
{{- range $flag, $value := $v.engine.args }}
{{- if kindIs "bool" $value }}
{{- if $value }}
- --{{ $flag }}
{{- end }}
{{- else if kindIs "slice" $value }}
- --{{ $flag }}
{{- range $value }}
- {{ . | quote }}
{{- end }}
{{- else if kindIs "map" $value }}
- {{ printf "--%s=%s" $flag (toJson $value) | quote }}
{{- else if not (kindIs "invalid" $value) }}
- {{ printf "--%s=%s" $flag (include "guided.scalar" $value) | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* A number as people write it: Helm reads 262144 as a float and would print 2.62144e+05. */}}
{{- define "guided.scalar" -}}
{{- if and (kindIs "float64" .) (eq (float64 (int64 .)) .) -}}{{ int64 . }}{{- else -}}{{ . }}{{- end -}}
{{- end -}}

{{- define "guided.env" -}}
{{- $v := .root.Values -}}
- name: GUIDED_CACHE_DIR
  value: /cache
- name: GUIDED_ADMIN_PORT
  value: {{ $v.admin.port | quote }}
- name: GUIDED_ADMIN_HOST
  value: 0.0.0.0
- name: NUMBA_CACHE_DIR
  value: /cache/numba
- name: HF_HOME
  value: {{ ternary "/cache" "/weights" (eq (include "guided.readOnlyWeights" .root) "true") }}/huggingface
- name: VLLM_CACHE_ROOT
  value: /cache/vllm
- name: HOME
  value: /cache/home
{{- if kindIs "invalid" $v.settings.compile_workers }}
- name: GUIDED_COMPILE_WORKERS
  value: {{ include "guided.compileWorkers" .root | quote }}
{{- end }}
{{- range $name, $value := $v.settings }}
{{- if not (kindIs "invalid" $value) }}
- name: GUIDED_{{ upper $name }}
  value: {{ include "guided.scalar" $value | quote }}
{{- end }}
{{- end }}
{{- with $v.indexCache.redis }}
{{- if .existingSecret }}
- name: GUIDED_REDIS_URL
  valueFrom:
    secretKeyRef:
      name: {{ .existingSecret }}
      key: {{ .urlKey }}
{{- if .signingKey }}
- name: GUIDED_REDIS_KEY
  valueFrom:
    secretKeyRef:
      name: {{ .existingSecret }}
      key: {{ .signingKey }}
{{- end }}
{{- end }}
{{- end }}
{{- if include "guided.warmConfigMap" .root }}
- name: GUIDED_WARM
  value: /warm
{{- end }}
{{- with $v.auth }}
{{- if and .existingSecret .key }}
- name: VLLM_API_KEY
  valueFrom:
    secretKeyRef:
      name: {{ .existingSecret }}
      key: {{ .key }}
{{- end }}
{{- if .adminKey }}
- name: GUIDED_ADMIN_KEYS
  valueFrom:
    secretKeyRef:
      name: {{ .existingSecret }}
      key: {{ .adminKey }}
{{- end }}
{{- if .keysFile }}
- name: GUIDED_API_KEYS_FILE
  value: /keys/{{ .keysFile }}
{{- end }}
{{- end }}
{{- with $v.huggingFace.existingSecret }}
- name: HF_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ . }}
      key: {{ $v.huggingFace.key }}
{{- end }}
{{- with $v.env }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "guided.warmConfigMap" -}}
{{- if .Values.warmUp.existingConfigMap -}}
{{ .Values.warmUp.existingConfigMap }}
{{- else if .Values.warmUp.constraints -}}
{{ include "guided.fullname" . }}-warm-up
{{- end -}}
{{- end -}}

{{- define "guided.weightsVolume" -}}
{{- $v := .Values -}}
- name: weights
{{- if eq $v.weights.source "pvc" }}
  persistentVolumeClaim:
    {{- if include "guided.readOnlyWeights" . }}
    readOnly: true
    {{- end }}
    claimName: {{ $v.weights.pvc.existingClaim | default (printf "%s-weights" (include "guided.fullname" .)) }}
{{- else if eq $v.weights.source "hostPath" }}
  hostPath:
    path: {{ $v.weights.hostPath.path }}
    type: Directory
{{- else }}
  emptyDir:
    sizeLimit: {{ $v.weights.sizeLimit }}
{{- end }}
{{- end -}}

{{/* The image brings compiled kernels in a folder of its own; a copy of it makes the first start as quick on a fresh volume. */}}
{{- define "guided.initContainers" -}}
{{- $v := .Values -}}
- name: seed-cache
  image: {{ include "guided.image" . }}
  imagePullPolicy: {{ $v.image.pullPolicy }}
  command: [sh, -c, "mkdir -p /cache/home {{ if not (include "guided.readOnlyWeights" .) }}/weights/huggingface {{ end }}&& cp -R /opt/guided/cache/. /cache/"]
  securityContext:
    {{- include "guided.containerSecurity" . | nindent 4 }}
    readOnlyRootFilesystem: true
  resources:
    requests: {cpu: 100m, memory: 64Mi}
    limits: {memory: 256Mi}
  volumeMounts:
    - {name: cache, mountPath: /cache}
    {{- if not (include "guided.readOnlyWeights" .) }}
    - {name: weights, mountPath: /weights}
    {{- end }}
{{- if eq $v.weights.source "s3" }}
- name: fetch-weights
  image: {{ $v.weights.s3.image }}
  command: [aws, s3, sync, --no-progress, {{ $v.weights.s3.uri | quote }}, /weights/model]
  env:
    - {name: HOME, value: /tmp}
  securityContext:
    {{- include "guided.containerSecurity" . | nindent 4 }}
    readOnlyRootFilesystem: true
  resources:
    requests: {cpu: "1", memory: 512Mi}
    limits: {memory: 2Gi}
  volumeMounts:
    - {name: weights, mountPath: /weights}
    - {name: tmp, mountPath: /tmp}
{{- end }}
{{- end -}}

{{/* Pod template of a Deployment or of one part of a LeaderWorkerSet: dict "root" "role" "component". */}}
{{- define "guided.podTemplate" -}}
{{- $root := .root -}}
{{- $v := $root.Values -}}
metadata:
  labels:
    {{- include "guided.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
    {{- with $v.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    kubectl.kubernetes.io/default-container: server
    {{- with $v.warmUp.constraints }}
    checksum/warm-up: {{ toJson . | sha256sum }}
    {{- end }}
    {{- with $v.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "guided.serviceAccount" $root }}
  automountServiceAccountToken: false
  enableServiceLinks: false # a service named vllm would set VLLM_PORT
  terminationGracePeriodSeconds: {{ $v.drain.terminationGracePeriodSeconds }}
  {{- with $v.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with $v.gpu.runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  {{- with $v.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  securityContext:
    {{- include "guided.podSecurity" $root | nindent 4 }}
  initContainers:
    {{- include "guided.initContainers" $root | nindent 4 }}
  containers:
    - name: server
      image: {{ include "guided.image" $root }}
      imagePullPolicy: {{ $v.image.pullPolicy }}
      command: [guided-server]
      args:
        {{- include "guided.args" . | nindent 8 }}
      env:
        {{- include "guided.env" . | nindent 8 }}
      {{- with $v.envFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if ne .role "worker" }}
      ports:
        - name: http
          containerPort: 8000
        - name: admin
          containerPort: {{ $v.admin.port }}
      # Ready paths answer only after the weights are loaded: the startup probe waits for the slow start, so that the liveness
      # probe need not, and a hung engine is noticed within a minute.
      startupProbe:
        httpGet: {path: {{ $v.probes.readyPath }}, port: http}
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: {{ div (add $v.probes.startupSeconds 4) 5 }}
      readinessProbe:
        httpGet: {path: {{ $v.probes.readyPath }}, port: http}
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: 2
      livenessProbe:
        httpGet: {path: {{ $v.probes.livePath }}, port: http}
        periodSeconds: 15
        timeoutSeconds: 10
        failureThreshold: 4
      lifecycle:
        preStop:
          sleep:
            seconds: {{ $v.drain.preStopSeconds }}
      {{- else }}
      # A worker computes for the leader's running answers until the leader has drained: its SIGTERM comes after that.
      lifecycle:
        preStop:
          sleep:
            seconds: {{ add $v.drain.preStopSeconds $v.drain.shutdownTimeoutSeconds }}
      {{- end }}
      resources:
        requests:
          {{- toYaml $v.resources.requests | nindent 10 }}
          {{- if $v.gpu.enabled }}
          {{ $v.gpu.resourceName }}: {{ $v.gpu.count }}
          {{- end }}
        limits:
          {{- toYaml $v.resources.limits | nindent 10 }}
          {{- if $v.gpu.enabled }}
          {{ $v.gpu.resourceName }}: {{ $v.gpu.count }}
          {{- end }}
      securityContext:
        {{- include "guided.containerSecurity" $root | nindent 8 }}
        # The NVIDIA runtime hook writes into the root file system of a GPU container.
        readOnlyRootFilesystem: {{ not $v.gpu.enabled }}
      volumeMounts:
        - {name: cache, mountPath: /cache}
        - {name: weights, mountPath: /weights{{ if include "guided.readOnlyWeights" $root }}, readOnly: true{{ end }}}
        - {name: shm, mountPath: /dev/shm}
        - {name: tmp, mountPath: /tmp}
        {{- if include "guided.warmConfigMap" $root }}
        - {name: warm-up, mountPath: /warm, readOnly: true}
        {{- end }}
        {{- if $v.auth.keysFile }}
        - {name: keys, mountPath: /keys, readOnly: true}
        {{- end }}
  volumes:
    {{- with include "guided.warmConfigMap" $root }}
    - name: warm-up
      configMap:
        name: {{ . }}
    {{- end }}
    {{- if $v.auth.keysFile }}
    # The whole secret's folder, not a file of it: the kubelet replaces that when the secret changes.
    - name: keys
      secret:
        secretName: {{ $v.auth.existingSecret }}
        defaultMode: 0440
        items:
          - {key: {{ $v.auth.keysFile }}, path: {{ $v.auth.keysFile }}}
    {{- end }}
    - name: cache
      emptyDir:
        sizeLimit: {{ $v.indexCache.sizeLimit }}
    {{- include "guided.weightsVolume" $root | nindent 4 }}
    - name: shm
      emptyDir:
        medium: Memory
        sizeLimit: {{ $v.sharedMemory }}
    - name: tmp
      emptyDir:
        sizeLimit: 2Gi
  {{- with $v.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if or $v.gpu.enabled $v.tolerations }}
  tolerations:
    {{- if $v.gpu.enabled }}
    - key: {{ $v.gpu.resourceName }}
      operator: Exists
      effect: NoSchedule
    {{- end }}
    {{- with $v.tolerations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
  affinity:
    {{- if $v.affinity }}
    {{- toYaml $v.affinity | nindent 4 }}
    {{- else }}
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 100
          podAffinityTerm:
            topologyKey: kubernetes.io/hostname
            labelSelector:
              matchLabels:
                {{- include "guided.selector" $root | nindent 16 }}
                app.kubernetes.io/component: {{ .component }}
    {{- end }}
  topologySpreadConstraints:
    {{- if $v.topologySpreadConstraints }}
    {{- toYaml $v.topologySpreadConstraints | nindent 4 }}
    {{- else }}
    - maxSkew: 1
      topologyKey: topology.kubernetes.io/zone
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "guided.selector" $root | nindent 10 }}
          app.kubernetes.io/component: {{ .component }}
    {{- end }}
{{- end -}}

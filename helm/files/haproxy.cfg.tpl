global
    log stdout format raw local0
    # More than the clients may have (below): probes and Prometheus get in while every stream is taken.
    maxconn {{ add .Values.router.maxConnections 32 }}
    tune.bufsize {{ .Values.router.bufferBytes }}
    {{- if ne .Values.router.affinity "none" }}
    lua-load /etc/haproxy/affinity.lua
    {{- end }}

defaults
    mode http
    log global
    option dontlognull
    timeout connect 5s
    timeout http-request 30s
    timeout client {{ .Values.router.streamTimeoutSeconds }}s
    timeout server {{ .Values.router.streamTimeoutSeconds }}s
    timeout queue 30s
    # A pod that did not take the connection: try another. What a pod may have read is never sent twice: it may be generating. So that a
    # pod's closing of an idle connection is not met halfway, each request has a connection of its own to its pod.
    retries 2
    retry-on conn-failure
    option redispatch
    option http-server-close

resolvers cluster
    parse-resolv-conf
    accepted_payload_size 8192
    hold valid 5s
    hold obsolete 5s

frontend openai
    bind :8080
    maxconn {{ .Values.router.maxConnections }}
    {{- if ne .Values.router.affinity "none" }}
    option http-buffer-request
    http-request lua.affinity {{ .Values.router.affinity }} {{ .Values.router.prefixBytes }} if METH_POST
    {{- end }}
    # At zero pods the request itself calls for one (autoscaling.keda): the client is told when to come back.
    http-request return status 503 content-type application/json hdr Retry-After 60 string '{"error": {"message": "no model server is ready yet; retry later", "type": "server_error", "param": null, "code": "not_ready"}}' if !{ nbsrv(pods) gt 0 }
    default_backend pods

frontend status
    bind :8404
    http-request use-service prometheus-exporter if { path /metrics }
    http-request return status 200 if { path /alive }
    no log

backend pods
    {{- if eq .Values.router.affinity "none" }}
    balance leastconn
    {{- else }}
    balance hash var(txn.affinity)
    hash-type consistent
    hash-balance-factor {{ .Values.router.balanceFactor }}
    {{- end }}
    option httpchk GET {{ .Values.probes.readyPath }}
    # hash-key: by address, so that all routers send a key to the same pod, whatever slot its address has got in each.
    # The whole name: HAProxy asks name servers itself and knows no search list.
    server-template pod {{ .Values.router.maxServers }} {{ include "guided.fullname" . }}-pods.{{ .Release.Namespace }}.svc.{{ .Values.router.clusterDomain }}:8000 check inter 5s fall 2 rise 1 resolvers cluster resolve-prefer ipv4 init-addr none hash-key addr-port

"""What the rendered objects promise: secrets, probes, drain, security, scaling, parallelism."""

from __future__ import annotations

import json

import pytest

from tests.deploy.tools import CHART, VALUE_FILES, find, pod_templates, refusal, render, server_containers

SPOT_NOTICE_S = 120


def case(name):
    return render(CHART / "ci" / f"{name}.yaml")


def environment(container):
    return {e["name"]: e.get("value", e.get("valueFrom")) for e in container["env"]}


def flags(container):
    """`--name=value` words as a dict; words that are flags alone are True."""
    pairs = (word.removeprefix("--").partition("=") for word in container["args"] if word.startswith("--"))
    return {name: value if sign else True for name, sign, value in pairs}


each_case = pytest.mark.parametrize("values", VALUE_FILES, ids=lambda p: p.stem)


# --- every pod of every case ------------------------------------------------------------------------------------------


@each_case
def test_nothing_runs_as_root_or_may_become_it(values):
    for name, template in pod_templates(render(values)).items():
        pod = template["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert pod["securityContext"]["runAsUser"] > 0, name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert pod["automountServiceAccountToken"] is False, name
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False, name
            assert security["capabilities"] == {"drop": ["ALL"]}, name
            assert "memory" in container["resources"]["limits"], name
            assert "cpu" in container["resources"]["requests"], name


@each_case
def test_the_root_file_system_is_writable_only_where_the_nvidia_hook_needs_it(values):
    for template in pod_templates(render(values)).values():
        pod = template["spec"]
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            has_gpu = "nvidia.com/gpu" in container["resources"]["limits"]
            assert container["securityContext"]["readOnlyRootFilesystem"] is not has_gpu


@each_case
def test_every_volume_that_is_mounted_exists_and_is_used(values):
    for template in pod_templates(render(values)).values():
        pod = template["spec"]
        mounted = {
            m["name"] for c in [*pod.get("initContainers", []), *pod["containers"]] for m in c.get("volumeMounts", [])
        }
        assert mounted == {v["name"] for v in pod.get("volumes", [])}


@each_case
def test_selectors_find_their_pods_and_only_those(values):
    manifests = render(values)
    labels = [t["metadata"]["labels"] for t in pod_templates(manifests).values()]

    def selected(selector):
        return [pod for pod in labels if selector.items() <= pod.items()]

    for thing in manifests:
        if thing["kind"] == "Service":
            pods = selected(thing["spec"]["selector"])
            assert len(pods) == 1, f"{thing['metadata']['name']} selects {len(pods)} kinds of pods"
            assert pods[0]["app.kubernetes.io/component"] in ("server", "router")  # never a worker, never the test
        if thing["kind"] in ("Deployment", "PodDisruptionBudget"):
            assert len(selected(thing["spec"]["selector"]["matchLabels"])) == 1


@each_case
def test_names_fit_and_carry_the_release(values):
    for thing in render(values):
        assert len(thing["metadata"]["name"]) <= 63
        assert thing["metadata"]["labels"]["app.kubernetes.io/instance"] == "test"


# --- the drain of a spot node -----------------------------------------------------------------------------------------


@each_case
def test_a_pod_is_gone_before_its_spot_node(values):
    for template in pod_templates(render(values)).values():
        for container in template["spec"]["containers"]:
            if container["name"] != "server" or "ports" not in container:
                continue
            wait = container["lifecycle"]["preStop"]["sleep"]["seconds"]
            running = int(flags(container)["shutdown-timeout"])
            grace = template["spec"]["terminationGracePeriodSeconds"]
            assert wait + running + 10 <= grace < SPOT_NOTICE_S


@pytest.mark.parametrize(
    "sets",
    [("drain.terminationGracePeriodSeconds=120",), ("drain.shutdownTimeoutSeconds=95",), ("drain.preStopSeconds=40",)],
)
def test_a_drain_that_does_not_fit_is_refused(sets):
    assert "terminationGracePeriodSeconds" in refusal(*sets)


# --- secrets and settings ---------------------------------------------------------------------------------------------


def test_secrets_come_from_secrets():
    variables = environment(server_containers(case("production"))[0])
    assert variables["VLLM_API_KEY"] == {"secretKeyRef": {"name": "guided-api-key", "key": "api-key"}}
    assert variables["HF_TOKEN"] == {"secretKeyRef": {"name": "guided-hugging-face", "key": "token"}}


def test_files_of_keys_and_keys_of_operators_come_from_the_secret():
    template = find(case("production"), "Deployment", "guided")["spec"]["template"]["spec"]
    (container,) = template["containers"]
    variables = environment(container)
    assert variables["GUIDED_ADMIN_KEYS"] == {"secretKeyRef": {"name": "guided-api-key", "key": "admin-key"}}
    assert variables["GUIDED_API_KEYS_FILE"] == "/keys/keys.yaml"
    assert {"name": "keys", "mountPath": "/keys", "readOnly": True} in container["volumeMounts"]
    (volume,) = [v["secret"] for v in template["volumes"] if v["name"] == "keys"]
    assert volume["secretName"] == "guided-api-key" and volume["items"] == [{"key": "keys.yaml", "path": "keys.yaml"}]
    assert "auth.existingSecret" in refusal('auth.keysFile="keys.yaml"')


def test_metrics_and_admin_routes_have_a_port_that_only_monitoring_reaches():
    manifests = case("production")
    variables = environment(server_containers(manifests)[0])
    assert (variables["GUIDED_ADMIN_PORT"], variables["GUIDED_ADMIN_HOST"]) == ("9000", "0.0.0.0")
    rules = find(manifests, "NetworkPolicy", "guided-server")["spec"]["ingress"]
    (rule,) = [r for r in rules if r.get("ports") == [{"port": 9000, "protocol": "TCP"}]]
    assert rule["from"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    (endpoint,) = find(manifests, "ServiceMonitor")["spec"]["endpoints"]
    ports = {p["name"]: p["targetPort"] for p in find(manifests, "Service", "guided-pods")["spec"]["ports"]}
    assert (endpoint["path"], ports[endpoint["port"]]) == ("/metrics", "admin")
    assert "8000" in refusal("admin.port=8000")


def test_the_shared_cache_comes_from_a_secret_and_may_be_reached():
    variables = environment(server_containers(case("production"))[0])
    assert variables["GUIDED_REDIS_URL"] == {"secretKeyRef": {"name": "guided-redis", "key": "url"}}
    assert variables["GUIDED_REDIS_KEY"] == {"secretKeyRef": {"name": "guided-redis", "key": "signing-key"}}
    egress = find(case("production"), "NetworkPolicy", "guided-server")["spec"]["egress"]
    rule = next(r for r in egress if r["ports"][0]["port"] == 6379)
    assert rule["to"] == [{"ipBlock": {"cidr": "10.64.0.0/16"}}]


def test_every_rank_reaches_the_index_store():
    for container in server_containers(case("multi-node")):
        variables = environment(container)
        assert variables["GUIDED_REDIS_URL"]["secretKeyRef"]["name"] == "guided-redis"
        assert "GUIDED_REDIS_KEY" not in variables
        assert variables["GUIDED_WARM"] == "/warm"
        assert {"name": "warm-up", "mountPath": "/warm", "readOnly": True} in container["volumeMounts"]
    egress = find(case("multi-node"), "NetworkPolicy")["spec"]["egress"]
    assert {"ports": [{"port": 6379, "protocol": "TCP"}]} in egress


def test_a_changed_constraint_is_a_new_pod():
    def checksum(*sets):
        pod = find(render(CHART / "ci" / "production.yaml", *sets), "Deployment", "guided")["spec"]["template"]
        return pod["metadata"]["annotations"]["checksum/warm-up"]

    assert checksum() == checksum()
    assert checksum() != checksum("warmUp.constraints.more\\.regex=a")


@pytest.mark.parametrize(
    ("sets", "reason"),
    [
        (('warmUp.constraints={"a.yaml": "x"}',), "no constraint by its name"),
        (('warmUp.constraints={"a.regex": 5}',), "has to be text"),
        (('warmUp.constraints={"a.regex": "x"}', 'warmUp.existingConfigMap="b"'), "not both"),
        (('settings={"redis_key": "k"}',), "redis_key"),
    ],
)
def test_warm_up_and_secrets_that_cannot_work_are_refused(sets, reason):
    assert reason in refusal(*sets)


def test_an_api_key_on_the_command_line_is_refused():
    assert "api-key" in refusal('engine.args={"api-key": "secret"}')


def test_a_setting_of_a_large_number_is_written_as_people_write_it():
    variables = environment(server_containers(case("production"))[0])
    assert variables["GUIDED_INDEX_BYTES"] == "268435456"
    assert variables["GUIDED_COMPILE_SECONDS"] == "5"


# --- probes -----------------------------------------------------------------------------------------------------------


def test_the_start_may_take_half_an_hour_and_a_hang_a_minute():
    container = server_containers(case("single-gpu"))[0]
    startup, liveness = container["startupProbe"], container["livenessProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] == 1800
    assert liveness["periodSeconds"] * liveness["failureThreshold"] == 60
    assert container["readinessProbe"]["httpGet"]["port"] == "http"
    assert container["ports"] == [{"name": "http", "containerPort": 8000}, {"name": "admin", "containerPort": 9000}]
    assert (container["readinessProbe"]["httpGet"]["path"], liveness["httpGet"]["path"]) == ("/ready", "/health")
    assert flags(container)["host"] == "0.0.0.0"  # the server's own default is the loopback only


# --- scaling ----------------------------------------------------------------------------------------------------------


def test_the_hpa_owns_the_number_of_pods():
    manifests = case("hpa")
    assert "replicas" not in find(manifests, "Deployment")["spec"]
    scaler = find(manifests, "HorizontalPodAutoscaler")["spec"]
    assert scaler["scaleTargetRef"]["name"] == find(manifests, "Deployment")["metadata"]["name"]
    targets = {m["pods"]["metric"]["name"]: m["pods"]["target"]["averageValue"] for m in scaler["metrics"]}
    assert targets == {"vllm_num_requests_waiting": "4", "vllm_kv_cache_usage_perc": "750m"}


def test_from_zero_the_router_calls_for_a_pod():
    scaler = find(case("keda-zero"), "ScaledObject")["spec"]
    assert scaler["minReplicaCount"] == 0
    queries = [t["metadata"]["query"] for t in scaler["triggers"]]
    assert len(queries) == 3
    assert (
        'haproxy_frontend_http_requests_total{namespace="ai",service="test-guided-server-router",proxy="openai"}'
        in queries[2]
    )
    assert all('service="test-guided-server-pods"' in q for q in queries[:2])
    # Without pods their metrics are missing, and that is no load as long as the router's are there.
    requests = (
        'sum(haproxy_frontend_http_requests_total{namespace="ai",service="test-guided-server-router",proxy="openai"})'
    )
    assert all(q.endswith(f" or 0 * {requests}") for q in queries[:2])
    assert "or" not in queries[2].split()


def test_no_data_is_not_no_load():
    """Whoever takes silence for idleness removes pods when Prometheus loses its targets."""
    for manifests in (case("keda-zero"), case("production")):
        scaler = find(manifests, "ScaledObject")["spec"]
        for trigger in scaler["triggers"]:
            assert trigger["metadata"]["ignoreNullValues"] == "false"
            assert "vector(" not in trigger["metadata"]["query"]
        assert scaler["fallback"]["behavior"] == "currentReplicasIfHigher"
        if scaler["minReplicaCount"] > 0:
            assert not any(" or " in t["metadata"]["query"] for t in scaler["triggers"])


def test_queries_name_services_that_exist():
    manifests = case("keda-zero")
    services = {m["metadata"]["name"] for m in manifests if m["kind"] == "Service"}
    assert {"test-guided-server-pods", "test-guided-server-router"} <= services


@pytest.mark.parametrize(
    ("sets", "reason"),
    [
        (('autoscaling.mode="keda"', "autoscaling.minReplicas=0"), "router.enabled"),
        (('autoscaling.mode="hpa"', "autoscaling.minReplicas=0"), "does not scale to zero"),
        (('autoscaling.mode="keda"', "autoscaling.minReplicas=9"), "above maxReplicas"),
        (("router.enabled=true", "replicas=40"), "maxServers"),
        (('autoscaling.mode="vpa"',), "autoscaling/mode"),
    ],
)
def test_scaling_that_cannot_work_is_refused(sets, reason):
    assert reason in refusal(*sets)


# --- models larger than a GPU -----------------------------------------------------------------------------------------


def test_gpus_of_one_pod():
    container = server_containers(case("tensor-parallel"))[0]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 4
    assert flags(container)["tensor-parallel-size"] == "4"


def test_a_group_of_nodes():
    leader, worker = server_containers(case("multi-node"))
    for container in (leader, worker):
        assert flags(container)["nnodes"] == "2"
        assert flags(container)["master-addr"] == "$(LWS_LEADER_ADDRESS)"
        assert container["resources"]["limits"]["nvidia.com/gpu"] == 4
    assert flags(leader)["node-rank"] == "0"
    assert flags(worker)["node-rank"] == "$(LWS_WORKER_INDEX)"
    assert flags(worker)["headless"] is True
    assert environment(leader) == environment(worker)  # the same caches, so the same indexes
    assert "startupProbe" not in worker  # it has no port
    assert find(case("multi-node"), "LeaderWorkerSet")["spec"]["leaderWorkerTemplate"]["size"] == 2


@pytest.mark.parametrize(
    ("sets", "workers"),
    [
        ((), "2"),
        (("resources.requests.cpu=16",), "4"),
        (("resources.requests.cpu=9500m",), "2"),
        (("resources.requests.cpu=30", "settings.compile_workers=3"), "3"),
    ],
)
def test_compile_workers_are_of_the_pod_and_not_of_its_node(sets, workers):
    container = server_containers(render(None, *sets))[0]
    given = [e["value"] for e in container["env"] if e["name"] == "GUIDED_COMPILE_WORKERS"]
    assert given == [workers]


def test_weights_from_s3_need_credentials():
    """Of EKS Pod Identity, at a link-local address; the metadata service beside it stays closed."""

    def addresses(manifests):
        rules = find(manifests, "NetworkPolicy")["spec"]["egress"]
        return [(to["ipBlock"]["cidr"], r["ports"]) for r in rules for to in r.get("to", []) if "ipBlock" in to]

    allowed = ("169.254.170.23/32", [{"port": 80, "protocol": "TCP"}])
    assert allowed in addresses(case("weights-s3"))
    assert allowed not in addresses(case("single-gpu"))
    https = find(case("weights-s3"), "NetworkPolicy")["spec"]["egress"][1]["to"][0]["ipBlock"]
    assert https["except"] == ["169.254.0.0/16"]


# --- helm test --------------------------------------------------------------------------------------------------------

FILE_OF_KEYS = ("auth.existingSecret=s", "auth.key=", "auth.keysFile=keys.yaml")


def test_the_test_sends_a_key_that_exists():
    def key(*sets):
        (container,) = find(render(None, *sets), "Pod")["spec"]["containers"]
        return environment(container).get("API_KEY")

    assert key() is None
    assert key("auth.existingSecret=s") == {"secretKeyRef": {"name": "s", "key": "api-key"}}
    assert key("auth.existingSecret=s", "auth.key=", "auth.adminKey=a") is None
    assert key(*FILE_OF_KEYS, "test.keySecret.name=t") == {"secretKeyRef": {"name": "t", "key": "api-key"}}
    assert "test.keySecret" in refusal(*(f'{name}="{value}"' for name, value in (s.split("=") for s in FILE_OF_KEYS)))


@pytest.mark.parametrize("opened", ["ingress.enabled=true", 'service.type="LoadBalancer"', 'service.type="NodePort"'])
def test_callers_from_outside_have_to_be_let_in(opened):
    assert "networkPolicy.from" in refusal(opened)
    pair = opened.replace('"', "")
    assert find(render(None, pair, "networkPolicy.enabled=false"), "Service", "test-guided-server")
    everybody = "networkPolicy.from[0].ipBlock.cidr=0.0.0.0/0"
    rules = find(render(None, pair, everybody), "NetworkPolicy")["spec"]["ingress"]
    assert {"ipBlock": {"cidr": "0.0.0.0/0"}} in rules[0]["from"]


def test_ranks_may_talk_to_each_other():
    policy = find(case("multi-node"), "NetworkPolicy")["spec"]
    free = [rule for rule in policy["ingress"] if "ports" not in rule]
    assert len(free) == 1
    assert free[0]["from"][0]["podSelector"]["matchExpressions"][0]["values"] == ["server", "worker"]


@pytest.mark.parametrize(
    ("sets", "reason"),
    [
        (("gpu.count=2",), "parallelism asks for 1 GPUs"),
        (("parallelism.tensor=2", "parallelism.pipeline=2", "gpu.count=2"), "asks for 4 GPUs"),
        (("multiNode.enabled=true", "gpu.enabled=false"), "gpu.enabled"),
        (("multiNode.enabled=true", "parallelism.data=2", "gpu.count=2", "parallelism.tensor=2"), "more replicas"),
        (("multiNode.enabled=true", "parallelism.tensor=2"), "indexCache.redis.existingSecret"),
        (('engine.args={"tensor-parallel-size": 2}',), "tensor-parallel-size is set by the chart"),
        (('weights.source="s3"',), "weights.s3.uri"),
        (('weights.source="gcs"',), "weights/source"),
        (('image.digest="latest"',), "image/digest"),
        (("runAsUser=0",), "runAsUser"),
        (('foo="bar"',), "foo"),
    ],
)
def test_values_that_contradict_each_other_are_refused(sets, reason):
    assert reason in refusal(*sets)


# --- weights ----------------------------------------------------------------------------------------------------------


def weights_volume(manifests):
    template = next(t for name, t in pod_templates(manifests).items() if name.startswith("Deployment/"))
    return next(v for v in template["spec"]["volumes"] if v["name"] == "weights")


def test_where_weights_come_from():
    assert weights_volume(case("single-gpu"))["emptyDir"]["sizeLimit"] == "40Gi"
    claim = find(case("weights-pvc"), "PersistentVolumeClaim")
    assert weights_volume(case("weights-pvc"))["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert weights_volume(case("weights-nvme"))["hostPath"]["path"].startswith("/mnt/k8s-disks")
    assert not [m for m in case("multi-node") if m["kind"] == "PersistentVolumeClaim"]  # it names one that exists


def test_weights_from_s3_are_copied_before_the_start():
    manifests = case("weights-s3")
    pod = find(manifests, "Deployment")["spec"]["template"]["spec"]
    copy = next(c for c in pod["initContainers"] if c["name"] == "fetch-weights")
    assert copy["command"][-2:] == ["s3://models-of-example/qwen2.5-7b", "/weights/model"]
    assert flags(pod["containers"][0])["model"] == "/weights/model"
    assert "eks.amazonaws.com/role-arn" in find(manifests, "ServiceAccount")["metadata"]["annotations"]


# --- network ----------------------------------------------------------------------------------------------------------


def test_the_metadata_service_is_out_of_reach():
    for values in VALUE_FILES:
        for policy in (m for m in render(values) if m["kind"] == "NetworkPolicy"):
            for rule in policy["spec"]["egress"]:
                for peer in rule.get("to", []):
                    if peer.get("ipBlock", {}).get("cidr") == "0.0.0.0/0":
                        assert "169.254.0.0/16" in peer["ipBlock"]["except"]


def test_behind_a_router_nobody_else_reaches_the_pods():
    manifests = case("production")
    server = find(manifests, "NetworkPolicy", "guided-server")["spec"]
    assert server["ingress"][0]["from"] == [
        {
            "podSelector": {
                "matchLabels": find(manifests, "Deployment", "guided-router")["spec"]["selector"]["matchLabels"]
            }
        }
    ]
    router = find(manifests, "NetworkPolicy", "guided-router")["spec"]
    assert {"namespaceSelector": {"matchLabels": {"team": "ai"}}} in router["ingress"][0]["from"]
    test_pod = find(manifests, "Pod")["metadata"]["labels"]
    (allowed,) = [peer["podSelector"]["matchLabels"] for peer in router["ingress"][0]["from"] if "podSelector" in peer]
    assert allowed.items() <= test_pod.items()  # helm test gets through


def test_clients_reach_the_router_where_there_is_one():
    for name, component in (("single-gpu", "server"), ("production", "router")):
        manifests = case(name)
        front = next(
            m
            for m in manifests
            if m["kind"] == "Service" and m["metadata"]["labels"].get("app.kubernetes.io/component") == "front"
        )
        assert front["spec"]["selector"]["app.kubernetes.io/component"] == component


# --- helm test --------------------------------------------------------------------------------------------------------


def test_the_test_pod_asks_for_a_constraint():
    pod = find(case("production"), "Pod")
    container = pod["spec"]["containers"][0]
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert '"guided_choice": choices' in container["args"][0]
    variables = environment(container)
    assert json.loads(variables["CHOICES"]) == ["POSITIVE", "NEUTRAL", "NEGATIVE"]
    assert variables["BASE_URL"] == "http://guided:80"
    assert variables["API_KEY"]["secretKeyRef"]["name"] == "guided-api-key"

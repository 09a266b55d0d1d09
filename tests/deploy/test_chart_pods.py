"""What every pod of the chart promises: rights, probes, drain, weights, GPUs."""

from __future__ import annotations

import pytest

from tests.deploy.tools import (
    CHART,
    VALUE_FILES,
    case,
    environment,
    find,
    flags,
    pod_templates,
    refusal,
    render,
    server_containers,
)

SPOT_NOTICE_S = 120
each_case = pytest.mark.parametrize("values", VALUE_FILES, ids=lambda p: p.stem)


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


@each_case
def test_a_pod_is_gone_before_its_spot_node(values):
    for template in pod_templates(render(values)).values():
        for container in template["spec"]["containers"]:
            if container["name"] != "server":
                continue
            wait = container["lifecycle"]["preStop"]["sleep"]["seconds"]
            running = int(
                flags(container).get("shutdown-timeout", 0)
            )  # a worker has none: it waits for its leader before
            grace = template["spec"]["terminationGracePeriodSeconds"]
            assert wait + running + 10 <= grace < SPOT_NOTICE_S


def test_workers_outlast_the_answers_of_their_leader():
    """All pods of a group end together: a rank that goes at once breaks every answer that the leader would still finish."""
    manifests = case("multi-node")
    leader, worker = server_containers(manifests)
    drained = leader["lifecycle"]["preStop"]["sleep"]["seconds"] + int(flags(leader)["shutdown-timeout"])
    assert worker["lifecycle"]["preStop"]["sleep"]["seconds"] == drained == 90
    budgets = [m["spec"]["selector"]["matchLabels"] for m in manifests if m["kind"] == "PodDisruptionBudget"]
    for template in pod_templates(manifests).values():
        labels = template["metadata"]["labels"]
        covered = sum(selector.items() <= labels.items() for selector in budgets)
        assert covered == (labels["app.kubernetes.io/component"] != "test")


@pytest.mark.parametrize(
    "sets",
    [("drain.terminationGracePeriodSeconds=120",), ("drain.shutdownTimeoutSeconds=95",), ("drain.preStopSeconds=40",)],
)
def test_a_drain_that_does_not_fit_is_refused(sets):
    assert "terminationGracePeriodSeconds" in refusal(*sets)


def test_the_start_may_take_half_an_hour_and_a_hang_a_minute():
    container = server_containers(case("single-gpu"))[0]
    startup, liveness = container["startupProbe"], container["livenessProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] == 1800
    assert liveness["periodSeconds"] * liveness["failureThreshold"] == 60
    assert container["readinessProbe"]["httpGet"]["port"] == "http"
    assert container["ports"] == [{"name": "http", "containerPort": 8000}, {"name": "admin", "containerPort": 9000}]
    assert (container["readinessProbe"]["httpGet"]["path"], liveness["httpGet"]["path"]) == ("/ready", "/health")
    assert flags(container)["host"] == "0.0.0.0"  # the server's own default is the loopback only


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


@pytest.mark.parametrize(
    ("sets", "reason"),
    [
        (("gpu.count=2",), "parallelism asks for 1 GPUs"),
        (("parallelism.tensor=2", "parallelism.pipeline=2", "gpu.count=2"), "asks for 4 GPUs"),
        (("multiNode.enabled=true", "gpu.enabled=false"), "gpu.enabled"),
        (("multiNode.enabled=true", "parallelism.data=2", "gpu.count=2", "parallelism.tensor=2"), "more replicas"),
        (("multiNode.enabled=true", "parallelism.tensor=2"), "indexCache.redis.existingSecret"),
        (('engine.args={"tensor-parallel-size": 2}',), "tensor-parallel-size is set by the chart"),
        (('engine.args={"tensor_parallel_size": 2}',), "tensor_parallel_size is set by the chart"),
        (('engine.args={"tensor-par": 2}',), "tensor-par is set by the chart"),
        (('engine.args={"ssl-keyfile": "/x"}',), "speak HTTP"),
        (('engine.args={"ssl_certfile": "/x"}',), "speak HTTP"),
        (('weights={"source": "pvc", "pvc": {"accessMode": "ReadOnlyMany"}}',), "existingClaim"),
        (
            ('weights={"source": "pvc", "pvc": {"accessMode": "ReadOnlyMany", "existingClaim": "w"}}',),
            "model.name /weights/",
        ),
        (('weights.source="s3"',), "weights.s3.uri"),
        (('weights.source="gcs"',), "weights/source"),
        (('image.digest="latest"',), "image/digest"),
        (("runAsUser=0",), "runAsUser"),
        (('foo="bar"',), "foo"),
    ],
)
def test_values_that_contradict_each_other_are_refused(sets, reason):
    assert reason in refusal(*sets)


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


def test_nothing_writes_to_weights_that_are_read_only():
    manifests = render(
        CHART / "ci" / "weights-pvc.yaml",
        "weights.pvc.accessMode=ReadOnlyMany",
        "weights.pvc.existingClaim=w",
        "model.name=/weights/qwen",
    )
    pod = find(manifests, "Deployment")["spec"]["template"]["spec"]
    (seed,) = pod["initContainers"]
    assert "/weights" not in str(seed["command"]) + str(seed["volumeMounts"])
    assert environment(pod["containers"][0])["HF_HOME"] == "/cache/huggingface"
    (mount,) = [m for m in pod["containers"][0]["volumeMounts"] if m["name"] == "weights"]
    assert mount["readOnly"] is True
    assert weights_volume(manifests)["persistentVolumeClaim"] == {"claimName": "w", "readOnly": True}


def test_the_test_pod_has_an_image_and_a_node_of_its_own():
    manifests = render(
        None, "test.image=python:3.13-alpine", "test.nodeSelector.kind=small", "test.deadlineSeconds=600"
    )
    pod = find(manifests, "Pod")["spec"]
    assert pod["containers"][0]["image"] == "python:3.13-alpine"
    assert (pod["nodeSelector"], pod["activeDeadlineSeconds"]) == ({"kind": "small"}, 600)


def test_weights_from_s3_are_copied_before_the_start():
    manifests = case("weights-s3")
    pod = find(manifests, "Deployment")["spec"]["template"]["spec"]
    copy = next(c for c in pod["initContainers"] if c["name"] == "fetch-weights")
    assert copy["command"][-2:] == ["s3://models-of-example/qwen2.5-7b", "/weights/model"]
    assert flags(pod["containers"][0])["model"] == "/weights/model"
    assert "eks.amazonaws.com/role-arn" in find(manifests, "ServiceAccount")["metadata"]["annotations"]

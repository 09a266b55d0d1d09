"""What the chart scales by, and from zero."""

from __future__ import annotations

import json

import pytest

from tests.deploy.tools import CHART, case, check, find, refusal, render, unscraped


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


def test_a_pod_with_several_engines_counts_once(tmp_path):
    """With data parallelism each engine of a pod has its series: asked of Prometheus itself."""
    scaler = find(render(CHART / "ci" / "data-parallel.yaml", "autoscaling.mode=keda"), "ScaledObject")["spec"]
    labels = 'namespace="ai", service="test-guided-server-pods"'
    series = {("a", 0): (0.8, 3), ("a", 1): (0.6, 1), ("b", 0): (0.4, 0), ("b", 1): (0.2, 2)}
    given = [
        {"series": f'{name}{{{labels}, pod="{pod}", engine="{engine}"}}', "values": f"{values[i]}x5"}
        for i, name in enumerate(("vllm:kv_cache_usage_perc", "vllm:num_requests_waiting"))
        for (pod, engine), values in series.items()
    ]
    wanted = {"kv-cache-usage": 1.2000000000000002, "waiting-requests": 6}
    asked = [
        {
            "expr": trigger["metadata"]["query"],
            "eval_time": "3m",
            "exp_samples": [{"labels": "{}", "value": wanted[trigger["name"]]}],
        }
        for trigger in scaler["triggers"]
    ]
    path = tmp_path / "queries_test.yaml"
    path.write_text(json.dumps({"tests": [{"interval": "1m", "input_series": given, "promql_expr_test": asked}]}))
    check("promtool", "test", "rules", path)


def test_queries_name_services_that_exist_and_are_scraped():
    manifests = case("keda-zero")
    services = {m["metadata"]["name"] for m in manifests if m["kind"] == "Service"}
    assert {"test-guided-server-pods", "test-guided-server-router"} <= services
    assert unscraped(manifests) == unscraped(case("production")) == []
    silent = render(CHART / "ci" / "keda-zero.yaml", "monitoring.serviceMonitor.enabled=false")
    assert unscraped(silent) == ["test-guided-server-pods", "test-guided-server-router"]


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

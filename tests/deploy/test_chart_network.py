"""Who reaches whom among the pods of the chart, and who does not."""

from __future__ import annotations

import pytest

from tests.deploy.tools import VALUE_FILES, case, environment, find, refusal, render, server_containers


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

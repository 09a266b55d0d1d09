"""Alerts and dashboards: they fire when they should, parse, and ask only for metrics that exist."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from fastapi import FastAPI
from fastapi.testclient import TestClient

from tests.deploy.test_router import Router
from tests.deploy.tools import CHART, ROOT, call, check, find, render

MONITORING = ROOT / "deploy" / "monitoring"
ALERTS = MONITORING / "alerts.yaml"
DASHBOARDS = sorted((MONITORING / "dashboards").glob("*.json"))
METRIC = re.compile(r"\b((?:vllm:|http_|haproxy_|guided_|kube_)[a-z0-9_]+|guided:[a-z0-9_:]+)")
# As kube-state-metrics documents them (docs/metrics/workload); it is in no registry that tests could ask.
KUBE_STATE = {
    "kube_deployment_status_replicas_available",
    "kube_deployment_status_replicas_unavailable",
    "kube_statefulset_replicas",
    "kube_statefulset_status_replicas_ready",
}
KINDS = {"_gauge_cls": "Gauge", "_counter_cls": "Counter", "_histogram_cls": "Histogram"}
KINDS |= {"GaugeMetricFamily": "Gauge", "CounterMetricFamily": "Counter", "HistogramMetricFamily": "Histogram"}
SUFFIXES = {"Gauge": [""], "Counter": ["_total"], "Histogram": ["_bucket", "_sum", "_count"]}


def rules():
    return [rule for group in yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]]


def expressions() -> dict[str, str]:
    """Every PromQL expression of the deployment: where it stands -> the expression."""
    found = {f"alerts/{r.get('alert') or r['record']}": r["expr"] for r in rules()}
    for path in DASHBOARDS:
        board = json.loads(path.read_text(encoding="utf-8"))
        for panel in board["panels"]:
            for target in panel["targets"]:
                found[f"{path.stem}/{panel['title']}/{target['legendFormat']}"] = target["expr"]
    for trigger in find(render(CHART / "ci" / "keda-zero.yaml"), "ScaledObject")["spec"]["triggers"]:
        found[f"keda/{trigger['name']}"] = trigger["metadata"]["query"]
    return found


def declared(path: Path) -> set[str]:
    """The series of the metrics that a Python file makes: calls of Counter, Gauge, Histogram or of vLLM's own classes for them."""
    series = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        kind = KINDS.get(function, function)
        given = [k.value for k in node.keywords if k.arg == "name"] or node.args[:1]
        if kind in SUFFIXES and given and isinstance(given[0], ast.Constant):
            name = given[0].value
            stem = name.removesuffix("_total") if kind == "Counter" else name
            series |= {stem + suffix for suffix in SUFFIXES[kind]}
    return series


@pytest.fixture(scope="module")
def known(tmp_path_factory) -> set[str]:
    """What vLLM, its HTTP instrumentation, this server, the router and the recording rules export."""
    from prometheus_client import CollectorRegistry
    from prometheus_fastapi_instrumentator import Instrumentator
    from vllm.v1.metrics import loggers

    app = FastAPI()
    registry = CollectorRegistry()
    Instrumentator(registry=registry).add().instrument(app).expose(app)
    client = TestClient(app)
    client.get("/metrics")
    http = set(re.findall(r"^(http_\w+)", client.get("/metrics").text, re.M))
    with Router(tmp_path_factory.mktemp("router"), []) as router:
        haproxy = set(re.findall(r"^(haproxy_\w+)", router.metrics(), re.M))
    ours = set().union(*(declared(path) for path in (ROOT / "server").rglob("*.py")))
    recorded = {r["record"] for r in rules() if "record" in r}
    found = declared(Path(loggers.__file__)) | http | haproxy | ours | recorded | KUBE_STATE
    assert "vllm:num_requests_waiting" in found  # the sources are read as they are meant to be
    assert "vllm:time_to_first_token_seconds_bucket" in found
    return found


def test_every_metric_that_is_asked_for_exists(known):
    missing = {
        place: names
        for place, expression in expressions().items()
        if (names := set(METRIC.findall(expression)) - known)
    }
    assert missing == {}


def test_a_misspelt_metric_would_be_missed(known):
    assert "vllm:num_request_waiting" in METRIC.findall("sum(vllm:num_request_waiting)")
    assert "vllm:num_request_waiting" not in known


def test_alerts_are_valid():
    check("promtool", "check", "rules", ALERTS)


def test_alerts_fire_when_they_should_and_only_then():
    check("promtool", "test", "rules", "alerts_test.yaml", cwd=MONITORING)


def test_every_alert_has_a_situation_in_which_it_is_silent():
    """Another time, or another namespace or model at the same time; promtool itself wants exactly the alerts that are listed."""

    def told(labels: dict[str, str]) -> tuple[str | None, ...]:
        return tuple(labels.get(name) for name in ("namespace", "model_name", "instance"))

    silent = set()
    for situation in yaml.safe_load((MONITORING / "alerts_test.yaml").read_text(encoding="utf-8"))["tests"]:
        given = {told(dict(re.findall(r'(\w+)="([^"]*)"', s["series"]))) for s in situation["input_series"]}
        for seen in situation["alert_rule_test"]:
            if given - {told(alert["exp_labels"]) for alert in seen["exp_alerts"]}:
                silent.add(seen["alertname"])
    assert silent >= {r["alert"] for r in rules() if "alert" in r}


def test_every_alert_has_its_situation_and_its_page_in_the_runbook():
    alerts = {r["alert"]: r for r in rules() if "alert" in r}
    tested = (MONITORING / "alerts_test.yaml").read_text(encoding="utf-8")
    runbook = (ROOT / "deploy" / "README.md").read_text(encoding="utf-8")
    headings = {h.lower() for h in re.findall(r"^#+ (\w+)$", runbook, re.M)}
    for name, rule in alerts.items():
        assert re.search(rf"alertname: {name}\n\s+exp_alerts:\n\s+- exp_labels", tested), f"{name} is never seen firing"
        path, _, anchor = rule["annotations"]["runbook"].partition("#")
        assert path == "deploy/README.md"
        assert anchor in headings, f"the runbook does not speak of {name}"


def test_expressions_of_dashboards_and_triggers_are_valid():
    """As recording rules, since promtool checks those."""
    made = []
    for place, expression in expressions().items():
        for variable, value in (("$__rate_interval", "5m"), ("$namespace", "ai"), ("$model", ".*")):
            expression = expression.replace(variable, value)
        made.append({"record": f"checked:{len(made)}", "expr": expression, "labels": {"place": place}})
    rules_text = json.dumps({"groups": [{"name": "checked", "rules": made}]})
    done = call("promtool", "check", "rules", "/dev/stdin", stdin=rules_text)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(made)} rules found" in done.stdout


def test_dashboards_are_up_to_date():
    done = subprocess.run(
        [sys.executable, "scripts/dashboards.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def test_dashboards_can_be_told_apart_and_fit_their_grid():
    boards = [json.loads(path.read_text(encoding="utf-8")) for path in DASHBOARDS]
    assert len({b["uid"] for b in boards}) == len(boards) >= 2
    for board in boards:
        assert len({p["id"] for p in board["panels"]}) == len(board["panels"])
        for panel in board["panels"]:
            assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
            assert len({t["refId"] for t in panel["targets"]}) == len(panel["targets"])


def test_the_chart_carries_alerts_and_dashboards_and_knows_its_own_names():
    manifests = render(CHART / "ci" / "production.yaml")
    names = {m["metadata"]["name"] for m in manifests if m["kind"] in ("Deployment", "Service")}
    assert {"guided", "guided-pods", "guided-router"} <= names
    assert all(re.fullmatch("guided(-.*)?", name) for name in names)
    text = ALERTS.read_text(encoding="utf-8").replace(".*guided.*", "guided(-.*)?")
    assert find(manifests, "PrometheusRule")["spec"]["groups"] == yaml.safe_load(text)["groups"]
    for path in DASHBOARDS:
        carried = find(manifests, "ConfigMap", f"guided-{path.stem}-dashboard")["data"][path.name]
        assert json.loads(carried) == json.loads(path.read_text(encoding="utf-8"))


def test_the_packaged_chart_holds_the_files_behind_its_links(tmp_path):
    check("helm", "package", CHART, "--destination", tmp_path)
    packed = check("helm", "template", "x", next(tmp_path.glob("*.tgz")), "--values", CHART / "ci" / "production.yaml")
    manifests = [m for m in yaml.safe_load_all(packed) if m]
    for path in DASHBOARDS:
        assert json.loads(find(manifests, "ConfigMap", f"guided-{path.stem}-dashboard")["data"][path.name])["panels"]
    assert find(manifests, "PrometheusRule")["spec"]["groups"]

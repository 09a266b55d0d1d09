"""Terraform: every module is valid, does what its own tests say, and hands out what the cluster and the chart understand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
import yaml

from scripts.chart_docs import ELSEWHERE
from server.bedrock.app import create_app
from server.bedrock.engine import Answer, Spent
from server.bedrock.settings import BedrockSettings
from server.bedrock.start import KEEP_ALIVE_SECONDS
from server.settings import Settings
from tests.deploy.terraform import MODULES, Terraform
from tests.deploy.tools import (
    CHART,
    KUBERNETES,
    ROOT,
    Manifest,
    call,
    check,
    custom_resource_violations,
    environment,
    find,
    is_custom,
    kubernetes_violations,
    render,
    unscraped,
)

PLATFORM_SECONDS = 120
EXPLAINED = {
    "CKV2_AWS_11": "flow logs are an account's decision and cost more than the caches; the policies of the cluster are in the chart",
    "CKV2_AWS_28": "a WAF costs more a month than the rest of medium; keys, limits of size and the ceiling of tasks stand in its place",
    "CKV2_AWS_57": "keys and passwords are read at the start: rotating them means a roll-out, which a person starts",
    "CKV_AWS_28": "a table of answers that a model gives again for a few cents needs no backup",
    "CKV_AWS_91": "the gateway logs every request itself, with its tokens; the balancer's log would need a bucket and tell less",
    "CKV_AWS_109": "a key's policy has to let the account's administrators in, and its resource is always the key itself",
    "CKV_AWS_111": "see CKV_AWS_109",
    "CKV_AWS_115": "the report runs once a day, and new accounts have nothing to reserve; a test looks at the ceiling of small",
    "CKV_AWS_116": "both functions are called synchronously or by a schedule that retries: no event can be lost",
    "CKV_AWS_117": "a VPC would need a NAT gateway, which costs more than small as a whole; nothing of it is in one",
    "CKV_AWS_173": "the variables of the report are no secret",
    "CKV_AWS_258": "OpenAI's clients sign no requests: the gateway checks their keys",
    "CKV_AWS_260": "port 80 answers with a redirect to 443 and nothing else",
    "CKV_AWS_272": "images are not signed zip files: they are named by digest",
    "CKV_AWS_301": "see CKV_AWS_258",
    "CKV_AWS_356": "see CKV_AWS_109",
}


@pytest.fixture(scope="module")
def modules(tmp_path_factory) -> dict[str, Terraform]:
    """Each initialised once, and its tests run once, for all that look at them."""
    return {m.name: Terraform(m, tmp_path_factory.mktemp(m.name)) for m in MODULES}


@pytest.fixture(params=[m.name for m in MODULES])
def module(request, modules) -> Terraform:
    return modules[request.param]


@pytest.fixture
def small(modules) -> Terraform:
    return modules["small"]


@pytest.fixture
def medium(modules) -> Terraform:
    return modules["medium"]


@pytest.fixture
def large(modules) -> Terraform:
    return modules["large"]


@pytest.fixture
def chart_in(large, tmp_path) -> Callable[[str], list[Manifest]]:
    """Name of a run of the tests of `large` -> the chart's objects with the values that it hands out there."""

    def rendered(run: str) -> list[Manifest]:
        path = tmp_path / f"{run}.yaml"
        path.write_text(large.tests()[run].outputs["helm_values"])
        return render(path)

    return rendered


def test_there_are_three_sizes():
    assert [m.name for m in MODULES] == ["large", "medium", "small"]


def test_formatting():
    check("terraform", "fmt", "-check", "-diff", "-recursive", ROOT / "deploy" / "terraform")


def test_valid(module):
    module.run("validate")


def test_its_own_tests_pass(module):
    runs = module.tests()
    assert runs
    assert {name: run.status for name, run in runs.items()} == dict.fromkeys(runs, "pass")


def test_variables_are_described_and_secrets_have_no_default(module):
    text = "".join(p.read_text(encoding="utf-8") for p in module.module.glob("*.tf"))
    for name, body in re.findall(r'^variable "(\w+)" \{(.*?)^\}', text, re.M | re.S):
        assert "description" in body, name
    assert not re.search(r"AKIA[0-9A-Z]{16}|aws_secret_access_key", text)


def test_everything_is_tagged(module):
    """By the provider, so that no resource can be forgotten."""
    versions = (module.module / "versions.tf").read_text(encoding="utf-8")
    assert re.search(r"default_tags \{\s+tags = local.tags", versions)
    assert "Project = var.name" in versions


def test_settings_have_the_names_of_the_server(module):
    """The modules read them from the chart's schema, which is generated from the server's class."""
    schema = yaml.safe_load((CHART / "values.schema.json").read_text(encoding="utf-8"))
    named = schema["properties"]["settings"]["properties"].keys() | ELSEWHERE.keys()
    assert named == Settings.model_fields.keys(), "run make chart"
    if module.module.name == "large":
        text = (module.module / "variables.tf").read_text(encoding="utf-8")
        assert "contains(local.known_settings, name)" in text
        assert "values.schema.json" in text


def test_settings_of_the_gateway_on_bedrock_have_its_names():
    text = (ROOT / "deploy" / "terraform" / "modules" / "gateway" / "main.tf").read_text(encoding="utf-8")
    listed = re.search(r"contains\(\[(.*?)\], name\)", text, re.S)
    assert listed
    elsewhere = {"models", "api_keys"}  # a variable of its own; a secret
    assert set(re.findall(r'"(\w+)"', listed[1])) == BedrockSettings.model_fields.keys() - elsewhere


def test_the_gateway_starts_with_what_the_modules_tell_it(monkeypatch, small):
    """The variables of the function, read by the gateway's own settings."""
    environment = small.tests()["defaults"].outputs["environment"]
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    settings = BedrockSettings()
    assert settings.models == {"haiku": "eu.anthropic.claude-haiku-4-5-20251001-v1:0"}
    assert settings.api_keys_secret.startswith("arn:aws:secretsmanager:")
    assert settings.answer_cache == "dynamodb:guided-small-answers"
    assert len(environment) == 4


def test_who_closes_an_idle_connection_is_the_balancer(medium):
    """Whoever closes first may close on a request that is on its way: a 502 that nobody can explain."""
    assert KEEP_ALIVE_SECONDS > PLATFORM_SECONDS
    assert f"platform_seconds = {PLATFORM_SECONDS} " in (medium.module / "main.tf").read_text(encoding="utf-8")


def test_a_task_takes_the_requests_that_it_is_sent_before_there_is_another(medium):
    """As many as the autoscaler wants for each, at the latency at which the alarm is raised."""
    text = "".join((medium.module / name).read_text(encoding="utf-8") for name in ("service.tf", "main.tf"))
    per_minute, seconds = (int(re.search(rf"{name} += (\d+)", text)[1]) for name in ("target_value", "p99_seconds"))
    assert per_minute / 60 * seconds <= BedrockSettings(models={"haiku": "x"}).connections


def test_every_alarm_has_its_page_in_the_runbook_and_looks_beyond_the_log(small, medium, large):
    headings = re.findall(r"^### ([a-z-]+)$", (ROOT / "deploy" / "README.md").read_text(encoding="utf-8"), re.M)
    small_alarms, medium_alarms, large_alarms = (
        set(m.tests()["defaults"].outputs["alarms"]) for m in (small, medium, large)
    )
    assert {"server-errors", "slow", "token-spike", "constraints-not-met"} <= small_alarms & medium_alarms
    assert {"function-errors", "function-throttles"} <= small_alarms
    assert {"balancer-errors", "target-errors", "unhealthy-tasks"} <= medium_alarms
    assert {"cache-evictions", "cache-busy", "interruptions-lost", "interruptions-unread", "nat-ports"} <= large_alarms
    assert "cost-report" in small_alarms & medium_alarms & large_alarms
    assert sorted(small_alarms | medium_alarms | large_alarms) == sorted(headings)


def test_what_bedrock_has_not_got_is_what_the_readme_says():
    """Its routes, and what the other gateway answers there."""
    readme = (ROOT / "deploy" / "README.md").read_text(encoding="utf-8")
    named = re.search(r"^Routes\. Only (.*?); (.*?) and the rest are 404", readme, re.M | re.S)
    assert named
    app = create_app(BedrockSettings(models={"haiku": "x"}), None, None, None)
    there = {route.path.replace("{name:path}", "{name}") for route in app.routes}
    assert set(re.findall(r"`(/[^`]+)`", named[1])) == there
    assert not set(re.findall(r"`(/[^`]+)`", named[2])) & there


def test_metric_filters_and_queries_read_fields_that_the_gateway_logs(caplog):
    text = (ROOT / "deploy" / "terraform" / "modules" / "watch" / "main.tf").read_text(encoding="utf-8")
    asked = set(re.findall(r"\$\.(\w+)", text))
    for query in re.findall(r'= "(filter .*?)"$', text, re.M):
        asked |= set(re.findall(r"(?:filter|and|sum\(|avg\(|pct\(|by|,) ?([a-z_]+)(?= |,|\)|$)", query)) - {
            "bin",
            "desc",
        }
    app = (ROOT / "server" / "bedrock" / "app.py").read_text(encoding="utf-8")
    logged = set(re.findall(r'"(\w+)":', app)) | {*Answer.__dataclass_fields__, *Spent.__dataclass_fields__}
    assert {"input_tokens", "output_tokens", "seconds", "status", "model", "constraint"} <= asked
    assert asked <= logged


def test_karpenter_understands_its_manifests(large):
    for run in ("defaults", "a_smaller_ceiling_reaches_both"):
        objects = list(yaml.safe_load_all(large.tests()[run].outputs["karpenter_manifests"]))
        assert {o["kind"] for o in objects} == {"NodePool", "EC2NodeClass"}
        pool = next(o for o in objects if o["kind"] == "NodePool")
        assert (
            pool["spec"]["template"]["metadata"]["labels"]["nvidia.com/gpu.present"] == "true"
        )  # for the device plugin
        assert custom_resource_violations([(o["kind"], o) for o in objects]) == []


def test_the_chart_takes_the_values_and_its_pods_fit_the_nodes(large, chart_in):
    manifests = chart_in("a_smaller_ceiling_reaches_both")
    outputs = large.tests()["a_smaller_ceiling_reaches_both"].outputs
    assert kubernetes_violations([(m["kind"], m) for m in manifests if not is_custom(m)]) == []
    assert custom_resource_violations([(m["kind"], m) for m in manifests if is_custom(m)]) == []
    assert unscraped(manifests) == []
    pod = find(manifests, "Deployment", "guided")["spec"]["template"]["spec"]
    pool = next(o for o in yaml.safe_load_all(outputs["karpenter_manifests"]) if o["kind"] == "NodePool")
    (taint,) = pool["spec"]["template"]["spec"]["taints"]
    assert any(t["key"] == taint["key"] and t["effect"] == taint["effect"] for t in pod["tolerations"])
    assert pod["nodeSelector"] == {"karpenter.sh/nodepool": pool["metadata"]["name"]}
    # A g5.xlarge has 4 vCPUs and 16 GiB, of which the kubelet keeps about 0.1 and 1.3 for itself.
    requests = pod["containers"][0]["resources"]["requests"]
    assert float(requests["cpu"]) <= 3.5
    assert int(requests["memory"].removesuffix("Gi")) <= 13
    assert int(pod["containers"][0]["resources"]["limits"]["memory"].removesuffix("Gi")) <= 14
    assert environment(pod["containers"][0])["GUIDED_COMPILE_SECONDS"] == "5"


def test_names_that_terraform_the_chart_and_the_readme_share(large, chart_in):
    """The secret, its keys, the namespace and the service account: each is written in two or three places that must agree."""
    manifests = chart_in("defaults")
    pod = find(manifests, "Deployment", "guided")["spec"]["template"]["spec"]
    test = find(manifests, "Pod")["spec"]
    references = [
        e["valueFrom"]["secretKeyRef"]
        for container in (*pod["containers"], *test["containers"])
        for e in container["env"]
        if "secretKeyRef" in e.get("valueFrom", {})
    ]
    assert {reference["name"] for reference in references} == {"guided-server"}
    used = {reference["key"] for reference in references}
    kept = set(re.findall(r'^    "([a-z-]+)" +=', (large.module / "secrets.tf").read_text(encoding="utf-8"), re.M))
    assert used == {"api-key", "cache-url", "signing-key"} <= kept
    variables = (large.module / "variables.tf").read_text(encoding="utf-8")
    default = {
        name: re.search(rf'variable "{name}" {{.*?default +=\s*"([^"]+)"', variables, re.S)[1]
        for name in ("name", "namespace", "kubernetes_version")
    }
    identity = (large.module / "secrets.tf").read_text(encoding="utf-8")
    assert re.search(r"namespace +=\s*var.namespace\s+service_account +=\s*var.name", identity)
    assert pod["serviceAccountName"] == default["name"]
    assert default["kubernetes_version"] in KUBERNETES
    readme = (ROOT / "deploy" / "README.md").read_text(encoding="utf-8")
    assert readme.index("kubectl create namespace ai") < readme.index("kubectl create secret generic guided-server")
    create = re.search(r"kubectl create secret generic (\S+) -n (\S+) (.*?)\nrm ", readme, re.S)
    assert create.group(1, 2) == ("guided-server", default["namespace"])
    assert set(re.findall(r"--from-literal=([a-z-]+)=", create[3])) == used
    install = re.search(r"helm upgrade --install (\S+) \.\./\.\./\.\./helm -n (\S+)", readme)
    assert install.group(1, 2) == (default["name"], default["namespace"])


def test_pods_that_may_read_a_bucket_do_so_and_get_their_credentials(chart_in):
    manifests = chart_in("weights_from_a_bucket")
    pod = find(manifests, "Deployment", "guided")["spec"]["template"]["spec"]
    fetch = next(c for c in pod["initContainers"] if c["name"] == "fetch-weights")
    assert fetch["command"][-2:] == ["s3://models-of-example/Qwen/Qwen2.5-7B-Instruct", "/weights/model"]
    assert "--served-model-name=Qwen/Qwen2.5-7B-Instruct" in pod["containers"][0]["args"]
    egress = find(manifests, "NetworkPolicy", "guided-server")["spec"]["egress"]
    assert any({"ipBlock": {"cidr": "169.254.170.23/32"}} in rule.get("to", []) for rule in egress)


def test_checkov_finds_nothing_that_is_not_explained():
    done = call(
        "checkov",
        "-d",
        ROOT / "deploy",
        "--framework",
        "terraform",
        "cloudformation",
        "--compact",
        "--quiet",
        "-o",
        "json",
    )
    reports = {report["check_type"]: report for report in json.loads(done.stdout)}
    assert all(report["summary"]["parsing_errors"] == 0 for report in reports.values())
    assert reports["terraform"]["summary"]["passed"] > 100
    assert reports["cloudformation"]["summary"]["passed"] > 20
    failed = {
        (f["check_id"], f["check_name"], f["resource"])
        for report in reports.values()
        for f in report["results"]["failed_checks"]
    }
    assert {f for f in failed if f[0] not in EXPLAINED} == set()
    assert {f[0] for f in failed} == EXPLAINED.keys(), "an explanation is no longer needed: remove it"

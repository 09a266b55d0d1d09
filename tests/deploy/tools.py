"""In: a tool's name and arguments; out: what it said. A tool that is not there skips the test that asked for it."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts import fetch_deploy_tools

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "helm"
VALUE_FILES = sorted((CHART / "ci").glob("*.yaml"))
KUBERNETES = ("1.31", "1.34", "1.37")
KUBERNETES_GROUPS = {"apps", "autoscaling", "policy", "networking.k8s.io", "v1"}
TIMEOUT_S = 180

Manifest = dict[str, Any]


def tool(name: str) -> str:
    path = fetch_deploy_tools.find(name)
    if path is None:
        pytest.skip(f"{name} could not be had: what it would check is NOT checked")
    return str(path)


def call(name: str, *arguments: str | Path, stdin: str | None = None, cwd: Path = ROOT, **environment: str):
    """The finished process, with text output; it may have failed."""
    return subprocess.run(
        [tool(name), *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd=cwd,
        env=os.environ | environment,
    )


def check(name: str, *arguments: str | Path, **options: Any) -> str:
    """What the tool wrote to stdout; fails the test with all that it said if it was not content."""
    done = call(name, *arguments, **options)
    assert done.returncode == 0, f"{name} {' '.join(map(str, arguments))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@cache
def _template(arguments: tuple[str, ...]) -> str:
    return check("helm", "template", "test", CHART, "--namespace", "ai", *arguments)


def render(values: Path | None = None, *sets: str) -> list[Manifest]:
    """The chart's objects with a file of values and `name=value` pairs on top."""
    arguments = ["--values", str(values)] if values else []
    for pair in sets:
        arguments += ["--set", pair]
    return [thing for thing in yaml.safe_load_all(_template(tuple(arguments))) if thing]


def refusal(*sets: str) -> str:
    """What Helm says to values that it must refuse."""
    done = call("helm", "template", "test", CHART, *(part for pair in sets for part in ("--set-json", pair)))
    assert done.returncode != 0, f"accepted: {sets}"
    return done.stderr


def case(name: str) -> list[Manifest]:
    """The objects of one of the chart's own files of values."""
    return render(CHART / "ci" / f"{name}.yaml")


def environment(container: Manifest) -> dict[str, Any]:
    return {e["name"]: e.get("value", e.get("valueFrom")) for e in container["env"]}


def flags(container: Manifest) -> dict[str, Any]:
    """`--name=value` words as a dict; words that are flags alone are True."""
    pairs = (word.removeprefix("--").partition("=") for word in container["args"] if word.startswith("--"))
    return {name: value if sign else True for name, sign, value in pairs}


def find(manifests: Iterable[Manifest], kind: str, name: str | None = None) -> Manifest:
    found = [m for m in manifests if m["kind"] == kind and name in (None, m["metadata"]["name"])]
    assert len(found) == 1, f"{len(found)} objects of kind {kind} named {name}"
    return found[0]


def pod_templates(manifests: Iterable[Manifest]) -> dict[str, Manifest]:
    """Every pod that the chart would run: where it comes from -> its template."""
    templates = {}
    for thing in manifests:
        label = f"{thing['kind']}/{thing['metadata']['name']}"
        if thing["kind"] == "Deployment":
            templates[label] = thing["spec"]["template"]
        elif thing["kind"] == "LeaderWorkerSet":
            parts = thing["spec"]["leaderWorkerTemplate"]
            templates[f"{label}/leader"], templates[f"{label}/worker"] = (
                parts["leaderTemplate"],
                parts["workerTemplate"],
            )
        elif thing["kind"] == "Pod":
            templates[label] = {"metadata": thing["metadata"], "spec": thing["spec"]}
    return templates


def server_containers(manifests: Iterable[Manifest]) -> list[Manifest]:
    containers = (c for t in pod_templates(manifests).values() for c in t["spec"]["containers"])
    return [c for c in containers if c["name"] == "server"]


def unscraped(manifests: list[Manifest]) -> list[str]:
    """Services that KEDA's queries name and that no ServiceMonitor of the same chart has scraped."""
    queries = [t["metadata"]["query"] for m in manifests if m["kind"] == "ScaledObject" for t in m["spec"]["triggers"]]
    selectors = [m["spec"]["selector"] for m in manifests if m["kind"] == "ServiceMonitor"]
    missing = []
    for name in sorted(set(re.findall(r'service="([^"]+)"', " ".join(queries)))):
        labels = find(manifests, "Service", name)["metadata"]["labels"]
        if not any(
            selector["matchLabels"].items() <= labels.items()
            and all(labels.get(e["key"]) in e["values"] for e in selector["matchExpressions"])
            for selector in selectors
        ):
            missing.append(name)
    return missing


def is_custom(thing: Manifest) -> bool:
    return thing["apiVersion"].split("/")[0] not in KUBERNETES_GROUPS


def kubernetes_violations(objects: list[tuple[str, Manifest]]) -> list[str]:
    """A line for each field that one of the Kubernetes versions would refuse or drop."""
    python = fetch_deploy_tools.target() / "python" / "bin" / "python"
    if not python.is_file():
        pytest.skip("kubernetes-validate could not be had: manifests are NOT checked")
    task = json.dumps({"versions": KUBERNETES, "objects": objects})
    return _lines([str(python), str(ROOT / "tests/deploy/kubernetes_schemas.py")], task)


def custom_resource_violations(objects: list[tuple[str, Manifest]]) -> list[str]:
    """The same for custom resources, by the schemas of their own projects."""
    schemas = fetch_deploy_tools.target() / "schemas"
    if not schemas.is_dir():
        pytest.skip("the schemas of custom resources could not be had: they are NOT checked")
    return _lines(
        [tool("node"), str(ROOT / "tests/deploy/custom_resource_schemas.mjs"), str(schemas)], json.dumps(objects)
    )


def _lines(command: list[str], stdin: str) -> list[str]:
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()

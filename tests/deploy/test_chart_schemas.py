"""Every value file of helm/ci, rendered, against Helm's own checks and the schemas of Kubernetes and of the custom resources."""

from __future__ import annotations

import copy
import json
import re

import pytest
from jsonschema import Draft202012Validator

from tests.deploy import leader_worker_set
from tests.deploy.tools import (
    CHART,
    VALUE_FILES,
    check,
    custom_resource_violations,
    find,
    is_custom,
    kubernetes_violations,
    pod_templates,
    render,
)


def labelled(values):
    return [(f"{values.name}:{m['kind']}/{m['metadata']['name']}", m) for m in render(values)]


def all_objects():
    return [pair for values in VALUE_FILES for pair in labelled(values)]


def test_there_are_ten_value_files():
    assert len(VALUE_FILES) >= 10


@pytest.mark.parametrize("values", VALUE_FILES, ids=lambda p: p.stem)
def test_lint(values):
    check("helm", "lint", "--strict", CHART, "--values", values)


def test_kubernetes_knows_every_field():
    objects = [(name, m) for name, m in all_objects() if not is_custom(m)]
    assert len(objects) > 80
    assert kubernetes_violations(objects) == []


def test_a_misspelt_field_is_found():
    bad = next(m for m in render(VALUE_FILES[0]) if m["kind"] == "Deployment")
    bad["spec"]["template"]["spec"]["enableServiceLink"] = False
    found = kubernetes_violations([("bad", bad)])
    assert len(found) == 3
    assert all("enableServiceLink" in line for line in found)


def test_custom_resources_are_as_their_projects_define_them():
    objects = [(n, m) for n, m in all_objects() if is_custom(m) and m["kind"] != "LeaderWorkerSet"]
    assert {m["kind"] for _, m in objects} == {"ScaledObject", "ServiceMonitor", "PrometheusRule"}
    assert custom_resource_violations(objects) == []


def test_a_misspelt_field_of_a_custom_resource_is_found():
    bad = next(m for _, m in all_objects() if m["kind"] == "ScaledObject")
    bad["spec"]["polingInterval"] = bad["spec"].pop("pollingInterval")
    (found,) = custom_resource_violations([("bad", bad)])
    assert "polingInterval" in found


@pytest.mark.parametrize("more", [(), ("autoscaling.mode=keda", "autoscaling.maxReplicas=2"), ("replicas=3",)])
def test_a_leader_worker_set_has_the_fields_of_its_api(more):
    group = find(render(CHART / "ci" / "multi-node.yaml", *more), "LeaderWorkerSet")
    Draft202012Validator(leader_worker_set.SCHEMA).validate(group)
    used = set(re.findall(r"\$\((LWS_\w+)\)", json.dumps(group)))
    assert used == {"LWS_LEADER_ADDRESS", "LWS_WORKER_INDEX"} <= leader_worker_set.VARIABLES


@pytest.mark.parametrize(
    "spoil",
    [
        lambda spec: spec.update(startupPolicy="LeaderReadyFirst"),
        lambda spec: spec.update(replica=2),
        lambda spec: spec["leaderWorkerTemplate"].update(restartPolicy="Always"),
        lambda spec: spec["leaderWorkerTemplate"].pop("workerTemplate"),
        lambda spec: spec["leaderWorkerTemplate"].update(size=0),
    ],
)
def test_a_spoilt_leader_worker_set_is_found(spoil):
    group = copy.deepcopy(find(render(CHART / "ci" / "multi-node.yaml"), "LeaderWorkerSet"))
    spoil(group["spec"])
    assert not Draft202012Validator(leader_worker_set.SCHEMA).is_valid(group)


def test_the_pods_of_a_leader_worker_set_are_pods():
    templates = pod_templates(render(CHART / "ci" / "multi-node.yaml"))
    groups = [(name, template) for name, template in templates.items() if name.startswith("LeaderWorkerSet")]
    assert len(groups) == 2
    objects = [
        (name, {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x"}, "template": template})
        for name, template in groups
    ]
    assert kubernetes_violations(objects) == []

"""checkov's policies for Kubernetes over the rendered chart: everything is passed but what is explained here."""

from __future__ import annotations

import json

import yaml

from tests.deploy.tools import CHART, call, render

CASES = ("production", "multi-node", "cpu-trial", "keda-zero")
EXPLAINED = {
    "CKV_K8S_21": "the namespace is the release's; Helm writes it into no object",
    "CKV_K8S_11": "a CPU limit throttles the event loop and the engine's process in the middle of a token",
    "CKV_K8S_43": "digests belong to a registry: image.digest takes yours, and production.yaml shows it",
    "CKV_K8S_15": "tags of releases do not move; Always would make a registry's outage ours",
    "CKV_K8S_35": "vLLM reads its API key and Hugging Face's token from the environment only",
}
EXPLAINED_OF = {
    ("Pod", "CKV_K8S_8"): "the test pod runs once and exits",
    ("Pod", "CKV_K8S_9"): "the test pod runs once and exits",
    ("Deployment", "CKV_K8S_22"): "the NVIDIA runtime hook writes into the root file system of the GPU container",
}


def test_checkov_finds_nothing_that_is_not_explained(tmp_path):
    for case in CASES:
        manifests = render(CHART / "ci" / f"{case}.yaml")
        (tmp_path / f"{case}.yaml").write_text(yaml.safe_dump_all(manifests))
    done = call("checkov", "-d", tmp_path, "--framework", "kubernetes", "--compact", "--quiet", "-o", "json")
    report = json.loads(done.stdout)
    assert report["summary"]["parsing_errors"] == 0
    assert report["summary"]["passed"] > 300
    failed = {(f["resource"].split(".")[0], f["check_id"], f["check_name"]) for f in report["results"]["failed_checks"]}
    unexplained = {f for f in failed if f[1] not in EXPLAINED and f[:2] not in EXPLAINED_OF}
    assert unexplained == set()
    found = {f[1] for f in failed} | {f[:2] for f in failed}
    assert found >= EXPLAINED.keys() | EXPLAINED_OF.keys(), "an explanation is no longer needed: remove it"

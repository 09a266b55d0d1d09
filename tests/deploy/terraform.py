"""In: a Terraform module of this repository; out: what `terraform` says of it, without an account and without a network."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.deploy.tools import ROOT, call

MODULES = sorted(p.parent for p in (ROOT / "deploy" / "terraform").glob("*/versions.tf"))
# Where the providers lie on a machine that reaches no Terraform registry; elsewhere `terraform init` fetches them.
LOCAL_PROVIDERS = [p for p in Path("/opt").glob("*plugins") if (p / "registry.terraform.io").is_dir()]


@dataclass(frozen=True, slots=True)
class TestRun:
    """One `run` block of a test file.

    Attributes:
        status: pass, fail, error or skip.
        outputs: of the module in that run; empty where it only planned.
    """

    __test__ = False

    status: str
    outputs: dict[str, Any]


class Terraform:
    """A module that is initialised in a folder of its own; nothing is written into the repository but an ignored lock file."""

    def __init__(self, module: Path, data: Path) -> None:
        self.module = module
        self.environment = {"TF_DATA_DIR": str(data), "TF_IN_AUTOMATION": "1", "CHECKPOINT_DISABLE": "1"}
        providers = [f"-plugin-dir={LOCAL_PROVIDERS[0]}"] if LOCAL_PROVIDERS else []
        self.run("init", "-backend=false", "-input=false", *providers)

    def run(self, *arguments: str) -> str:
        if not Path(os.environ.get("TF_CLI_CONFIG_FILE", "/dev/null")).exists():
            os.environ.pop("TF_CLI_CONFIG_FILE")  # terraform warns on stdout of a file that is not there
        done = call("terraform", *arguments, cwd=self.module, **self.environment)
        assert done.returncode == 0, f"terraform {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    @cache  # noqa: B019 (as long-lived as the test session)
    def tests(self) -> dict[str, TestRun]:
        """Runs the module's tests: name of the run -> what came of it."""
        statuses, outputs = {}, {}
        for line in self.run("test", "-json", "-verbose").splitlines():
            said = json.loads(line)
            if said.get("type") == "test_run" and said["test_run"].get("progress") == "complete":
                statuses[said["test_run"]["run"]] = said["test_run"]["status"]
            if said.get("type") == "test_state":
                outputs[said["@testrun"]] = {k: v["value"] for k, v in said["test_state"].get("outputs", {}).items()}
        return {name: TestRun(status, outputs.get(name, {})) for name, status in statuses.items()}

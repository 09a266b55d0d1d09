"""The images, built and run for real by buildah on a Debian root that stands in for the base image. Minutes: make test-image.

The GPU image cannot be built without vLLM's own image; its steps are those of the CPU image.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from scripts import fetch_deploy_tools
from tests.deploy.tools import CHART, ROOT, find, render, tool
from tests.live_server import free_port

BASE = "localhost/guided-base:bookworm"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
BUILDAH = {"BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "vfs"}
WHEELS = [Path(p) for p in os.environ.get("PIP_FIND_LINKS", "").split() if Path(p).is_dir()]


def buildah(*arguments: str | Path) -> str:
    done = subprocess.run(
        [tool("buildah"), *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | BUILDAH,
        timeout=1800,
    )
    assert done.returncode == 0, f"buildah {arguments[0]}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout.strip()


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> str:
    """Debian 12 with its Python 3.11, this machine's certificates and pip's settings."""
    if not os.environ.get("GUIDED_TEST_IMAGE"):
        pytest.skip("takes minutes: run make test-image")
    root = fetch_deploy_tools.target() / "bookworm.tar"
    if not root.is_file():
        part = root.with_name("bookworm.part.tar")  # its ending asks mmdebstrap for a file, not a folder
        packages = "python3,python3-venv,ca-certificates"
        command = [tool("mmdebstrap"), "--variant=minbase", f"--include={packages}", "bookworm", str(part)]
        subprocess.run(command, check=True, capture_output=True, timeout=900)
        part.rename(root)
    folder = tmp_path_factory.mktemp("base")
    settings = [f"cert = {CERTIFICATES}", *(f"find-links = {path}" for path in WHEELS)]
    (folder / "pip.conf").write_text("[global]\n" + "\n".join(settings) + "\n")
    container = buildah("from", "scratch")
    try:
        buildah("add", "--quiet", container, root, "/")
        buildah("copy", "--quiet", container, CERTIFICATES, CERTIFICATES)
        buildah("copy", "--quiet", container, folder / "pip.conf", "/etc/pip.conf")
        buildah("commit", "--quiet", container, BASE)
    finally:
        buildah("rm", container)
    return BASE


def build(base: str, target: str) -> str:
    image = f"localhost/guided-test-{target}"
    volumes = [word for path in WHEELS for word in ("--volume", f"{path}:{path}:ro")]
    buildah(
        "bud",
        "--quiet",
        "--format",
        "docker",
        *volumes,
        "--target",
        target,
        "--build-arg",
        f"CPU_BASE_IMAGE={base}",
        "-t",
        image,
        ".",
    )
    return image


def run(image: str, script: str, **environment: str) -> str:
    """What a shell script prints as the image's user, with the image's variables."""
    container = buildah("from", image)
    try:
        variables = [f"--env={name}={value}" for name, value in environment.items()]
        return buildah("run", *variables, container, "--", "sh", "-c", script)
    finally:
        buildah("rm", container)


def configuration(image: str) -> dict:
    return json.loads(buildah("inspect", "--type", "image", image))["Docker"]["config"]


@pytest.mark.timeout(900)
def test_the_bedrock_image_serves(base):
    image = build(base, "bedrock")
    assert configuration(image)["User"] == "10001:10001"
    assert "Healthcheck" in configuration(image)
    port = free_port()
    script = f"""id -u; touch /opt/venv/x 2>/dev/null && echo writable
    python3 -m server.bedrock.start --port {port} >/dev/null 2>&1 & server=$!
    for i in $(seq 60); do sleep 0.5; python3 -c "import urllib.request as u
print(u.urlopen('http://127.0.0.1:{port}/v1/models').read())" 2>/dev/null && break; done; kill $server"""
    told = run(image, script, GUIDED_BEDROCK_MODELS='{"haiku": "x"}', GUIDED_BEDROCK_REGION="eu-central-1")
    assert told.splitlines()[0] == "10001"
    assert '"id":"haiku"' in told
    assert "writable" not in told


@pytest.mark.timeout(2400)
def test_the_cpu_image_has_its_kernels_and_so_has_the_copy_of_a_pod(base):
    if shutil.disk_usage("/var/lib").free < 30 << 30:
        pytest.skip("the layers of the CPU image need 30 GB of disk")
    image = build(base, "cpu")
    pod = find(render(CHART / "ci" / "cpu-trial.yaml"), "Deployment")["spec"]["template"]["spec"]
    assert configuration(image)["User"] == "10001:10001"
    assert configuration(image)["Entrypoint"] == ["guided-server"]
    seed = next(c for c in pod["initContainers"] if c["name"] == "seed-cache")["command"][2]
    script = f"""id -u; touch /weights/x && ls /weights; mkdir /tmp/cache /tmp/weights; {seed.replace("/cache/", "/tmp/cache/", 1)}"""
    script = script.replace(" /cache/", " /tmp/cache/").replace(" /weights/h", " /tmp/weights/h")
    script += """; NUMBA_CACHE_DIR=/tmp/cache/numba python3 - <<'END'
import time
begin = time.monotonic()
import guided
guided.warm_up()
index = guided.Constraint.regex("a+").digest
print(round(time.monotonic() - begin, 1), len(index))
END
guided-server --help=revision 2>&1 | grep -c '^  --revision'"""
    user, written, warm, revision = run(image, script).splitlines()[:4]
    assert user == "10001"
    assert written == "x", "a fresh volume on /weights would be root's"
    assert float(warm.split()[0]) < 30, "the kernels were compiled again"
    assert int(revision) >= 1

"""Every route that vLLM has, its development routes too, is behind what it should be: a new one has to be thought of."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from server.access import Access, access_to
from tests.live_server import ROOT

LISTS = """
import json
from server.settings import set_environment
set_environment()
from fastapi import FastAPI
from vllm.entrypoints.launchers.api_server.routers import register_api_routers
from vllm.tasks import POOLING_TASKS
from server.command_line import parse_arguments
args, _ = parse_arguments(["--model", "a/b", "--enable-tokenizer-info-endpoint", "--enable-scale-out"])
app = FastAPI()
app.state.args = args
register_api_routers(args, app, ("generate", "transcription", "realtime", *POOLING_TASKS), None)
def paths(routes):
    for route in routes:
        if hasattr(route, "path"):
            yield route.path
        else:
            yield from paths(route.original_router.routes)
print(json.dumps(sorted(set(paths(app.routes)))))
"""
ANYBODY = {"/health", "/ping"}
# Generate, or say what a caller may know.
CALLERS = {
    "/detokenize", "/docs", "/docs/oauth2-redirect", "/generative_scoring", "/inference/v1/generate", "/invocations", "/load",
    "/openapi.json", "/redoc", "/tokenize", "/tokenizer_info", "/v1/audio/transcriptions", "/v1/audio/translations",
    "/v1/chat/completions", "/v1/chat/completions/batch", "/v1/chat/completions/derender", "/v1/chat/completions/render",
    "/v1/completions", "/v1/completions/derender", "/v1/completions/render", "/v1/messages", "/v1/messages/count_tokens",
    "/v1/messages/render", "/v1/models", "/v1/realtime", "/v1/responses", "/v1/responses/render", "/v1/responses/{response_id}",
    "/v1/responses/{response_id}/cancel", "/v1/systemone", "/version",
}  # fmt: skip
OPERATORS = {"/metrics", "/sleep", "/collective_rpc", "/pause", "/server_info", "/inference/v1/abort_requests"}


def test_every_route_of_vllm():
    environment = os.environ | {"VLLM_SERVER_DEV_MODE": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", LISTS], capture_output=True, text=True, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    routes = json.loads(done.stdout.splitlines()[-1])
    found = {access: {path for path in routes if access_to(path) is access} for access in Access}
    assert found[Access.PUBLIC] == ANYBODY
    assert found[Access.CALLER] == CALLERS
    assert found[Access.ADMIN] >= OPERATORS

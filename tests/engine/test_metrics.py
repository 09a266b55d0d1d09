"""What dashboards and alerts count: refusals too, though no engine sees them."""

from __future__ import annotations

import re

import httpx
import pytest

from tests.engine.requests import curl
from tests.live_server import LiveServer

pytestmark = pytest.mark.engine


def counted(server: LiveServer, status: str) -> float:
    text = httpx.get(f"{server.url}/metrics", timeout=10).text
    found = re.search(
        rf'^http_requests_total{{handler="/v1/completions",method="POST",status="{status}"}} (\S+)$', text, re.M
    )
    return float(found[1]) if found else 0.0


def test_refused_constraints_are_counted(server):
    before = counted(server, "4xx")
    status, _ = curl(server, "/v1/completions", {"model": server.model, "prompt": "x", "guided_regex": "(a"})
    assert status == 400
    assert counted(server, "4xx") == before + 1

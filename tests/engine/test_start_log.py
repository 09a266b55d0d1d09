"""What a server says while it starts: its own steps, and nothing that nobody can act on."""

from __future__ import annotations

import re

import httpx
import pytest

from server.start_log import EXPECTED

pytestmark = pytest.mark.engine


def test_a_start_is_calm(server):
    if server.log is None:
        pytest.skip("GUIDED_TEST_URL: that server's log is elsewhere")
    before = server.log.read_text(errors="replace").partition("ready on")[0]
    for beginning in (
        *(one for of in EXPECTED.values() for one in of),
        "FutureWarning",
        "checkpoint shards",
        "NUMA",
        "Triton not",
    ):
        assert beginning not in before
    steps = re.findall(r"^guided-server: \[ *[0-9.]+ s\] (.*)$", before, re.MULTILINE)
    assert httpx.get(f"{server.url}/health", timeout=60).status_code == 200
    assert '"GET /health HTTP/1.1" 200' in server.log.read_text(errors="replace"), "requests are in it"
    assert len(steps) >= 3 and len(before.splitlines()) <= len(steps) + 8, before

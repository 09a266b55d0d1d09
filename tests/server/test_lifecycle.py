"""The start of a server, without an engine."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import pytest

from server import lifecycle
from server.settings import Settings


def test_a_port_that_is_taken_is_named(monkeypatch):
    """It is known before the long start; what else vLLM does there is left out."""
    from vllm.entrypoints.launchers.launcher import create_server_socket

    monkeypatch.setattr(
        lifecycle,
        "setup_server",
        lambda args, reuse_port: (args.host, create_server_socket((args.host, args.port), reuse_port=reuse_port)),
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        args = SimpleNamespace(host="127.0.0.1", port=taken.getsockname()[1], uds=None)
        with pytest.raises(OSError, match=rf"port {args.port}: Address already in use"):
            lifecycle.bind(Settings(), args)

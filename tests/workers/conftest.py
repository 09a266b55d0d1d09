"""Fixtures of this folder."""

from tests.workers.live_pool import live, loop

__all__ = ["live", "loop"]

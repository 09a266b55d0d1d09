"""Client libraries in environments of their own. `make test-clients` fetches them and sets GUIDED_TEST_CLIENTS.

Plain `make test` does not run these tests; a client that could not be had skips its tests by name.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not os.environ.get("GUIDED_TEST_CLIENTS"):
        for item in items:
            if HERE in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="run make test-clients"))

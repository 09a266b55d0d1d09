"""Fixtures: run a schema on texts, byte by byte, with the slow reference machine."""

from __future__ import annotations

import json
from typing import Any

import pytest

from guided.automaton.reference import ReferenceMachine
from guided.json_schema import build_network
from guided.limits import Budget


class Acceptor:
    """The texts of one schema."""

    def __init__(self, schema: Any, **options: str) -> None:
        self._machine = ReferenceMachine(build_network(schema, options, Budget()))

    def text(self, text: str) -> bool:
        return self._machine.matches(text.encode())

    def value(self, value: Any) -> bool:
        """Whether the value is accepted as `json.dumps` writes it; all its usual spellings must agree."""
        spellings = [
            json.dumps(value),
            json.dumps(value, indent=2),
            json.dumps(value, separators=(",", ":")),
            json.dumps(value, ensure_ascii=False),
        ]
        answers = {self.text(spelling) for spelling in spellings}
        assert len(answers) == 1, f"spellings of {value!r} disagree"
        return answers.pop()


@pytest.fixture
def accept():
    return Acceptor

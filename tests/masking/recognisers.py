"""Recognisers for the slow reference that share nothing with the library: prefixes of strings, and partial regex matches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import regex


@dataclass(frozen=True, slots=True)
class ChoiceRecogniser:
    """The state is the text so far."""

    choices: Sequence[bytes]

    def start(self) -> bytes:
        return b""

    def step(self, state: bytes, byte: int) -> bytes | None:
        text = state + bytes([byte])
        return text if any(choice.startswith(text) for choice in self.choices) else None

    def accepts(self, state: bytes) -> bool:
        return state in self.choices


@dataclass(frozen=True, slots=True)
class RegexRecogniser:
    """The state is the text so far; the `regex` module says whether it can still become a match. For ASCII patterns."""

    pattern: bytes

    def start(self) -> bytes:
        return b""

    def step(self, state: bytes, byte: int) -> bytes | None:
        text = state + bytes([byte])
        return text if regex.fullmatch(self.pattern, text, partial=True) else None

    def accepts(self, state: bytes) -> bool:
        return regex.fullmatch(self.pattern, state) is not None

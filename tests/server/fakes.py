"""Stand-ins for the parts that need a model: an index that accepts one text, and a compile service that makes it."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

from guided.constraint import Constraint
from server.compile_service import Compiled, spells_an_answer
from server.handover import HandedOver


class TextIndex:
    """Accepts one text; tokens are Unicode code points and states are positions."""

    start = 0

    def __init__(self, text: str) -> None:
        self.text = text

    def advance(self, state: int, token: int) -> int | None:
        return state + 1 if self.text[state : state + 1] == chr(token) else None

    def is_accepting(self, state: int) -> bool:
        return state == len(self.text)


class FakeCompileService:
    """Compiles any constraint to `TextIndex("ok")`, or raises what it is told to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.pool = SimpleNamespace(in_time=nullcontext)
        self.compiled: list[Constraint] = []

    def is_text(self, token_id: int) -> bool:
        return token_id >= 32

    def holds(self, digest: str) -> bool:
        return any(one.digest == digest for one in self.compiled)

    async def find(self, digest: str, caller: str = "") -> Constraint | None:
        return next((one for one in self.compiled if one.digest == digest), None)

    async def compile(self, constraint: Constraint, caller: str = "") -> Compiled:
        if self.error is not None:
            raise self.error
        self.compiled.append(constraint)
        return compiled(constraint, TextIndex("ok"))


class FakeBackends:
    """vLLM's backends, which take everything, or refuse it with what they are told to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    async def outputs(self, handed: HandedOver, caller: str) -> Any:
        if self.error is not None:
            raise self.error
        return handed.in_vllms_words()


def compiled(constraint: Constraint, index: TextIndex, *, growing: bool = False) -> Compiled:
    """As the compile service gives it; a growing index stays with the workers, who explore it when they are asked."""

    async def check(tokens: list[int], caller: str) -> bool:
        return spells_an_answer(index, tokens)  # type: ignore[arg-type]

    async def fewest_tokens(caller: str) -> int:
        return len(index.text)

    async def explore(tokens: list[int], caller: str) -> bool:
        return growing and all(index.advance(state, token) is not None for state, token in enumerate(tokens))

    return Compiled(constraint, None if growing else index, check, fewest_tokens, explore)  # type: ignore[arg-type]


def sample(tokens: list[int], finish_reason: str | None = None, index: int = 0) -> SimpleNamespace:
    return SimpleNamespace(index=index, token_ids=tokens, finish_reason=finish_reason)


def output(*samples: SimpleNamespace) -> Any:
    return SimpleNamespace(outputs=list(samples))


def tokens_of(text: str) -> list[int]:
    return [ord(character) for character in text]

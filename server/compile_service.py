"""In: a constraint; out: its compiled index, off the event loop, once for all who ask at the same time. Knows no HTTP.

One thread compiles, so that a constraint cannot take more than one core from the requests that are being served.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from guided import TokenIndex
from guided.compiler import compile
from guided.constraint import Constraint
from guided.limits import Limits
from guided.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Compiled:
    """A constraint with its index. The index grows while it is used, so readers hold `lock`."""

    constraint: Constraint
    index: TokenIndex
    lock: threading.Lock = field(default_factory=threading.Lock)

    def satisfied_by(self, tokens: list[int]) -> bool:
        """Do these tokens, without the stop token, spell a complete answer?"""
        with self.lock:
            state = self.index.start
            for token in tokens:
                next_state = self.index.advance(state, token)
                if next_state is None:
                    return False
                state = next_state
            return self.index.is_accepting(state)


class CompileService:
    """Compiles constraints for one vocabulary and remembers the last `capacity` of them."""

    def __init__(self, vocabulary: Vocabulary, *, limits: Limits, capacity: int) -> None:
        self.vocabulary = vocabulary
        self._limits = limits
        self._capacity = capacity
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="compile")
        self._known: OrderedDict[str, Compiled] = OrderedDict()  # digest -> compiled, least recently used first
        self._running: dict[str, asyncio.Future[Compiled]] = {}  # digest -> compilation under way

    def is_text(self, token_id: int) -> bool:
        """May a constrained answer contain this token? False for stop and special tokens and for what is no token at all."""
        return 0 <= token_id < self.vocabulary.size and self.vocabulary.is_text(token_id)

    async def compile(self, constraint: Constraint) -> Compiled:
        """The index of `constraint`.

        Raises:
            ConstraintError: the constraint says something that cannot be enforced, or costs more than the limits.
        """
        digest = constraint.digest
        known = self._known.get(digest)
        if known is not None:
            self._known.move_to_end(digest)
            return known
        running = self._running.get(digest)
        if running is None:
            loop = asyncio.get_running_loop()
            running = asyncio.ensure_future(loop.run_in_executor(self._executor, self._compile, constraint))
            self._running[digest] = running
            running.add_done_callback(lambda done: self._finish(digest, done))
        return await asyncio.shield(running)  # a caller that leaves does not take the others' compilation along

    def _compile(self, constraint: Constraint) -> Compiled:
        return Compiled(constraint, compile(constraint, self.vocabulary, self._limits))

    def _finish(self, digest: str, done: asyncio.Future[Compiled]) -> None:
        del self._running[digest]
        if done.cancelled() or done.exception() is not None:
            return
        self._known[digest] = done.result()
        if len(self._known) > self._capacity:
            self._known.popitem(last=False)

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)

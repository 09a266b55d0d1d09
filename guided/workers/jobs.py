"""What a worker does: a job in, its outcome out. Knows the compiler and the cache, neither processes nor sockets.

A job is a generator: it yields its outcome once, and what it does after that nobody waits for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace

import numpy as np

from guided.automaton.lazy_dfa import LazyDfa
from guided.automaton.snapshot import StaleSnapshot
from guided.cache import Memory, Store
from guided.compiler import begin_index, build_network, fewest_tokens, writable_network
from guided.constraint import Constraint
from guided.errors import ConstraintError, LimitExceeded
from guided.index.token_index import TokenIndex
from guided.limits import Budget, Limits
from guided.plot import plot, title_of
from guided.vocabulary import Vocabulary
from guided.workers.facts import facts_of
from guided.workers.messages import Message, from_error

COMPILED = "compiled"  # the "tier" of an index that no tier had

_GROWING_BYTES = 256 << 20  # growing indexes that a worker keeps for the next answer that it checks
_WORTH_WRITING = 1.1  # an index that grew by this factor is written back
_PATIENCE = 0.5  # part of the wall time that a job waits for others who compile the same constraint


@dataclass(frozen=True, slots=True)
class _Growing:
    """An index that this worker goes on with.

    Attributes:
        stamp: of the file that it was read from or written to; None where there was none.
        written_states: how many the file has.
    """

    index: TokenIndex
    stamp: bytes | None
    written_states: int


class Jobs:
    """The jobs of one vocabulary.

    Every job has "kind", "seconds" and "cpu_seconds" (of CPU time: when it gives up, when it is killed) and "wall_seconds", after which
    it is killed as well; most have "constraint", its canonical text.
    """

    def __init__(self, vocabulary: Vocabulary, store: Store, limits: Limits, *, shares_first: bool = False) -> None:
        """`shares_first`: an index is in the remote cache before its outcome is told."""
        self._vocabulary = vocabulary
        self._store = store
        self._limits = limits
        self._shares_first = shares_first
        self._growing: Memory[_Growing] = Memory(_GROWING_BYTES)
        self._kinds: dict[str, Callable[..., Iterator[Message]]] = {
            "compile": self._compile,
            "close": self._close,
            "fetch": self._fetch,
            "check": self._check,
            "explore": self._explore,
            "fewest": self._fewest,
            "describe": self._describe,
            "plot": self._plot,
            "flush": self._flush,
        }

    def run(self, job: Message) -> Iterator[Message]:
        """One outcome: what the job found, or {"refused": error}."""
        budget = Budget(replace(self._limits, seconds=job["seconds"]), clock=time.process_time)
        try:
            yield from self._kinds[job["kind"]](job, budget)
        except ConstraintError as error:
            yield {"refused": from_error(error)}
        except MemoryError:
            message = "the constraint is too complex: it needs more memory than a compilation may take"
            yield {"refused": from_error(LimitExceeded(message, limit="memory_bytes"))}

    def cache_use(self) -> Message:
        """Of the tiers below memory; what is counted, since the last call."""
        return {"files": self._store.files.use(), "remote": self._store.remote_use()}

    # --- compile ------------------------------------------------------------------------------------------------------

    def _compile(self, job: Message, budget: Budget) -> Iterator[Message]:
        """Finds or compiles an index, and closes it as far as "closing_seconds" (of CPU time) go.

        Raises:
            LimitExceeded: also where its file is larger than any that is kept: nobody else could have it.
        """
        constraint = Constraint.from_canonical(job["constraint"])
        stages = Stages()
        found = self._store.find(constraint.digest, budget)
        if found is not None:
            yield self._outcome(constraint, found.stored.index, found.tier, stages)
            return
        with self._store.alone(constraint.digest, _PATIENCE * job["wall_seconds"]):
            found = self._store.find(constraint.digest, budget)
            if found is not None:
                yield self._outcome(constraint, found.stored.index, found.tier, stages)
                return
            index = self._begin(constraint, budget, stages)
            with stages.timed("closing"):
                close(index, job["closing_seconds"], budget)
            with stages.timed("file"):
                data = self._store.keep(index, constraint)
            if len(data) > self._store.files.largest_bytes:
                raise _too_large(len(data), self._store.files.largest_bytes)
            yield from self._shared(self._outcome(constraint, index, COMPILED, stages), constraint, data)

    def _close(self, job: Message, budget: Budget) -> Iterator[Message]:
        """Closes an index that still grows. One that does not close in "closing_seconds" is left as it was: it would only be large."""
        constraint = Constraint.from_canonical(job["constraint"])
        stages = Stages()
        found = self._store.find(constraint.digest, budget)
        index = self._begin(constraint, budget, stages) if found is None else found.stored.index
        tier = COMPILED if found is None else found.tier
        data = None
        if not index.is_closed:
            with stages.timed("closing"):
                close(index, job["closing_seconds"], budget)
            if index.is_closed:
                data = self._store.keep(index, constraint)
        yield from self._shared(self._outcome(constraint, index, tier, stages), constraint, data)

    def _shared(self, outcome: Message, constraint: Constraint, data: bytearray | None) -> Iterator[Message]:
        """The outcome, before or after what was written is shared; `data`: None where nothing was."""
        if data is not None and self._shares_first:
            self._store.share(constraint.digest, data)
        yield outcome
        if data is not None and not self._shares_first:
            self._store.share(constraint.digest, data)

    def _outcome(self, constraint: Constraint, index: TokenIndex, tier: str, stages: Stages) -> Message:
        return {
            "tier": tier,
            "stored": self._store.files.touch(constraint.digest),
            "closed": index.is_closed,
            "states": index.num_states,
            "rows": index.num_rows,
            "bytes": index.memory_bytes,
            "stages": stages.seconds,
        }

    def _fetch(self, job: Message, budget: Budget) -> Iterator[Message]:
        """Brings the index of "digest" to this host, if any tier has it."""
        found = self._store.find(job["digest"], budget)
        yield {"constraint": None if found is None else found.stored.constraint.canonical_text}

    def _begin(self, constraint: Constraint, budget: Budget, stages: Stages) -> TokenIndex:
        budget.restart()
        with stages.timed("network"):
            network = writable_network(constraint, self._vocabulary, budget)
        with stages.timed("automaton"):
            dfa = LazyDfa(network, budget)
        with stages.timed("first row"):
            return begin_index(dfa, self._vocabulary)

    # --- answers of growing indexes -----------------------------------------------------------------------------------

    def _check(self, job: Message, budget: Budget) -> Iterator[Message]:
        """Do "tokens" spell a complete answer? What the index learns on the way is kept."""
        constraint = Constraint.from_canonical(job["constraint"])
        growing = self._growing_index(constraint, budget)
        try:
            complete = _spells_an_answer(growing.index, job["tokens"])
        except StaleSnapshot:  # cannot be gone on with: begin anew
            growing = _Growing(self._begin(constraint, budget, Stages()), None, 0)
            complete = _spells_an_answer(growing.index, job["tokens"])
        yield {"complete": complete}
        if growing.index.num_states > _WORTH_WRITING * growing.written_states:
            with self._store.alone(constraint.digest, 0.5):
                # Otherwise somebody learnt more, or closed it.
                if growing.stamp == self._store.files.stamp(constraint.digest):
                    self._write(constraint, growing.index)

    def _explore(self, job: Message, budget: Budget) -> Iterator[Message]:
        """Finds out what may come after "tokens", for "exploring_seconds", and writes the index; do they begin an answer at all?"""
        constraint = Constraint.from_canonical(job["constraint"])
        with self._store.alone(constraint.digest, _PATIENCE * job["wall_seconds"]):
            index = self._growing_index(constraint, budget).index
            state = _state_after(index, job["tokens"])
            if state is not None and not index.is_closed:
                explore(index, state, job["exploring_seconds"])
                self._write(constraint, index)
        yield {"alive": state is not None}

    def _growing_index(self, constraint: Constraint, budget: Budget) -> _Growing:
        """The index as it was last written, with the network in memory where this worker had it before."""
        stamp = self._store.files.stamp(constraint.digest)
        known = self._growing.get(constraint.digest)
        if known is None or known.stamp != stamp:
            found = self._store.find(constraint.digest, budget)
            index = self._begin(constraint, budget, Stages()) if found is None else found.stored.index
            known = _Growing(index, stamp, 0 if found is None else index.num_states)
            self._growing.put(constraint.digest, known, index.memory_bytes)
        known.index.use_budget(budget)
        return known

    def _write(self, constraint: Constraint, index: TokenIndex) -> None:
        data = self._store.keep(index, constraint)
        known = _Growing(index, self._store.files.stamp(constraint.digest), index.num_states)
        self._growing.put(constraint.digest, known, index.memory_bytes)
        self._store.share(constraint.digest, data)

    def _fewest(self, job: Message, budget: Budget) -> Iterator[Message]:
        """How many tokens the shortest answer needs; see `guided.index.fewest`."""
        yield {
            "fewest_tokens": fewest_tokens(
                self._growing_index(Constraint.from_canonical(job["constraint"]), budget).index
            )
        }

    # --- the rest -----------------------------------------------------------------------------------------------------

    def _describe(self, job: Message, budget: Budget) -> Iterator[Message]:
        """What there is to know of a constraint whose index has been compiled."""
        constraint = Constraint.from_canonical(job["constraint"])
        found = self._store.find(constraint.digest, budget)
        index = self._begin(constraint, budget, Stages()) if found is None else found.stored.index
        yield asdict(facts_of(constraint, index, self._vocabulary, budget.limits))

    def _plot(self, job: Message, budget: Budget) -> Iterator[Message]:
        """The automaton as a picture, of at most "max_states" states; a schema's with one layout of its documents."""
        constraint = Constraint.from_canonical(job["constraint"]).in_one_layout()
        dfa = LazyDfa(build_network(constraint, budget), budget)
        svg, _ = plot(
            dfa,
            title_of(constraint),
            max_states=job["max_states"],
            json_escapes=constraint.kind not in ("json", "structural_tag"),
        )
        yield {"svg": svg}

    def _flush(self, job: Message, budget: Budget) -> Iterator[Message]:
        self._growing.flush()
        yield {"removed": self._store.flush()}


def close(index: TokenIndex, seconds: float, budget: Budget) -> None:
    """Closes an index as far as the time goes; it may cost `budget` afterwards, as before."""
    if seconds > 0:
        try:
            index.close(Budget(replace(budget.limits, seconds=seconds), clock=budget.clock))
        except LimitExceeded:
            pass  # it goes on growing where traffic needs it
        finally:
            index.use_budget(budget)


def explore(index: TokenIndex, state: int, seconds: float) -> None:
    """Computes the rows of a state and of those that follow it, breadth first by bytes, until the (CPU) time is over."""
    end = time.process_time() + seconds
    automaton = index.automaton
    seen, queue = {state}, [state]
    for current in queue:
        index.mask(current)
        if time.process_time() > end:
            return
        for following in np.unique(automaton.machine.delta[current, : automaton.num_classes]).tolist():
            if following >= 0 and following not in seen:
                seen.add(following)
                queue.append(following)


def _state_after(index: TokenIndex, tokens: list[int]) -> int | None:
    state = index.start
    for token in tokens:
        following = index.advance(state, token)
        if following is None:
            return None
        state = following
    return state


def _spells_an_answer(index: TokenIndex, tokens: list[int]) -> bool:
    state = _state_after(index, tokens)
    return state is not None and index.is_accepting(state)


def _too_large(nbytes: int, most: int) -> LimitExceeded:
    what = f"the file of its index is {nbytes:,} bytes, and the largest that is kept {most:,}"
    return LimitExceeded(f"the constraint is too complex: {what}", limit="file_bytes")


class Stages:
    """How long each stage took, wall seconds."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = round(time.perf_counter() - begin, 6)

"""An automaton that still grows goes in, plain arrays come out, and back; knows no vocabulary and no file.

The arrays are stored with their spare room, so that what is mapped back grows in place. What late rules would build is code, not data:
the network is built again from its constraint when a rule is asked for that the arrays do not have, and the rules that had been built
are replayed in their order. Front ends are deterministic, so the numbers come out as before; they are compared all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from guided.automaton.lazy_dfa import LazyDfa
from guided.automaton.machine import (
    CONFIGS,
    FINAL,
    FIRST_EDGE,
    ITEMS,
    STACKS,
    TEXT,
    NetworkArrays,
    new_machine,
)
from guided.automaton.network import Network
from guided.limits import Budget

Arrays = dict[str, np.ndarray]

_STALE = "the constraint's network came out differently than when its index was stored"
# Machine arrays that are kept, with the counter of their used rows (None: used as a whole) and what fills the rest.
_KEPT: dict[str, int | None] = {
    "counts": None,
    "stacks": STACKS,
    "stack_table": None,
    "items": ITEMS,
    "config_begin": None,
    "config_hash": CONFIGS,
    "config_table": None,
    "flags": CONFIGS,
    "texts": CONFIGS,
    "delta": CONFIGS,
    "class_of": None,
}


class StaleSnapshot(ValueError):
    """The network that was built again is not the one that the arrays came from."""


def to_arrays(dfa: LazyDfa) -> Arrays:
    """All that has been found out so far."""
    source, machine = dfa.source, dfa.machine
    states, edges, rules, byte_sets = dfa._mirrored
    used = {"states": states, "edges": edges, "rule_start": rules, "set_has_class": byte_sets}
    arrays = {name: zeroed(getattr(dfa.network, name), count) for name, count in used.items()}
    for name, counter in _KEPT.items():
        array = getattr(machine, name)
        arrays[name] = array if counter is None else zeroed(array, int(machine.counts[counter]))
    for name in ("set_has_class", "delta"):  # columns of classes that there are not
        arrays[name][:, dfa.num_classes :] = 0
    arrays["mirrored"] = np.array(dfa._mirrored, np.int64)
    arrays["late_rules"] = np.array([number for late in source.late_rules for number in _flat(late)], np.int64)
    return arrays


def from_arrays(arrays: Arrays, rebuild: Callable[[], Network], budget: Budget) -> LazyDfa:
    """The automaton as it was, on the same arrays.

    Args:
        rebuild: gives the network of the constraint anew, without any late rule built.
    """
    dfa = LazyDfa.__new__(LazyDfa)
    dfa.budget = budget
    dfa.network = NetworkArrays(**{name: arrays[name] for name in NetworkArrays._fields})
    dfa._mirrored = tuple(arrays["mirrored"].tolist())
    dfa.split_from = np.zeros(256, np.uint8)
    dfa.machine = new_machine(1, configs=1)._replace(**{name: arrays[name] for name in _KEPT})
    dfa.source = _StoredNetwork(dfa, rebuild, arrays["late_rules"].tolist())
    return dfa


class _StoredNetwork(Network):
    """Stands in for the network until a late rule is asked for; what else is asked of a network is answered from the arrays."""

    def __init__(self, dfa: LazyDfa, rebuild: Callable[[], Network], late_rules: list[int]) -> None:
        super().__init__()
        self._dfa = dfa
        self._rebuild = rebuild
        self._real: Network | None = None
        self.late_rules = list(_unflattened(late_rules))
        has_byte = dfa.network.set_has_class[: dfa._mirrored[3], dfa.machine.class_of]
        packed = np.packbits(has_byte, axis=1, bitorder="little")
        self.byte_sets.extend(int.from_bytes(row.tobytes(), "little") for row in packed)

    @property
    def size(self) -> tuple[int, int, int, int]:
        return self._dfa._mirrored

    def build(self, rule: int) -> int:
        """Puts the real network into the automaton and builds the rule there. Raises StaleSnapshot."""
        return self._real_network().build(rule)

    def answer(self, question: int, text: bytes) -> int:
        """Puts the real network into the automaton and has it answer. Raises StaleSnapshot."""
        return self._real_network().answer(question, text)

    def _real_network(self) -> Network:
        if self._real is None:
            network = self._rebuild()
            network.build(network.root)
            try:
                for late in self.late_rules:
                    if isinstance(late, tuple):
                        network.answer(-1 - late[0], late[1])
                    else:
                        network.build(late)
            except (
                IndexError,
                KeyError,
                ValueError,
            ) as error:  # there is no such rule or question, or it has another text
                raise StaleSnapshot(_STALE) from error
            self._compare(network)
            self._dfa.source, self._dfa._known_texts = network, len(network.text_states)
            self._real = network
        return self._real

    def _compare(self, network: Network) -> None:
        states, edges, rules, byte_sets = self._dfa._mirrored
        stored = self._dfa.network
        same = (
            network.size == (states, edges, rules, byte_sets)
            and np.array_equal(stored.states[:states, FIRST_EDGE], network.first_edge)
            and np.array_equal(stored.states[:states, FINAL], network.final)
            and np.array_equal(np.flatnonzero(stored.states[:states, TEXT]), sorted(network.text_states))
            and np.array_equal(stored.edges[:edges].ravel(), network.edges)
            and np.array_equal(stored.rule_start[:rules], network.rule_start)
            and network.byte_sets == self.byte_sets
        )
        if not same:
            raise StaleSnapshot(_STALE)


def _flat(late: int | tuple[int, bytes]) -> Iterator[int]:
    """An entry of `Network.late_rules` as numbers: of a question its number, the length of the text, and the text."""
    if isinstance(late, tuple):
        yield from (late[0], len(late[1]), *late[1])
    else:
        yield late


def _unflattened(numbers: list[int]) -> Iterator[int | tuple[int, bytes]]:
    at = 0
    while at < len(numbers):
        if numbers[at] >= 0:
            yield numbers[at]
            at += 1
        else:
            end = at + 2 + numbers[at + 1]
            yield numbers[at], bytes(numbers[at + 2 : end])
            at = end


def zeroed(array: np.ndarray, used: int) -> np.ndarray:
    """A copy with zeros where nothing has been written: spare room is whatever the memory held before."""
    clean = np.zeros_like(array)
    clean[:used] = array[:used]
    return clean

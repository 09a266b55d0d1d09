"""In: closed indexes; out: their tables side by side in memory of one device, by number. Knows no request and no batch.

An index is copied to the device when the first request needs it and stays until its room is wanted and nobody uses it, the
least recently used one first. Everything is addressed through `extents`, so what is in use may move when room is made.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from guided.automaton.network import special_token_bytes
from guided.vocabulary import Vocabulary

DELTA, CLASSES, STATES, DENSE, LISTS = range(5)  # columns of Tables.extents
LONGEST_LIST = 128  # tokens of a row that is kept as a list, at most; see guided.index.kernels
DEFAULT_BYTES = 512 << 20
_SPARE = 8  # one part in so many of the pool is emptied beyond what is needed


class ClosedIndex(Protocol):
    """What the pool needs of a `TokenIndex`."""

    @property
    def is_closed(self) -> bool: ...

    def to_arrays(self) -> dict[str, np.ndarray]: ...


@dataclass(slots=True)
class Tables:
    """The tables of all resident indexes. Replaced when they grow, so fetch them anew for every step.

    State s of index i has the row `place[extents[i, STATES] + s]`: p >= 0 is row `extents[i, DENSE] + p` of `dense`, otherwise
    a list that begins at `extents[i, LISTS] - 1 - p` of `lists`. All integers are signed: torch has no full uint32.
    """

    token_data: torch.Tensor  # uint8[bytes]: the bytes of all tokens, back to back
    token_begin: torch.Tensor  # int64[vocabulary + 1]: token t is token_data[token_begin[t] : token_begin[t + 1]]
    extents: (
        torch.Tensor
    )  # int64[indexes, 5]: where the tables of an index begin; column CLASSES is the width of its delta
    class_of: torch.Tensor  # uint8[indexes, 256]: byte -> class
    delta: torch.Tensor  # int32[entries]: state * classes + class -> next state, -1 = dead
    place: torch.Tensor  # int32[states]: place of the state's row
    accepting: torch.Tensor  # uint8[states]: may the output end here?
    dense: torch.Tensor  # int32[rows, ceil(vocabulary / 32)]: bit t % 32 of word t // 32 set = token t is allowed
    lists: torch.Tensor  # int32[tokens]: each list is its length, then its tokens


_ARENAS = ("delta", "place", "accepting", "dense", "lists")
_COLUMN = {"delta": DELTA, "place": STATES, "dense": DENSE, "lists": LISTS}  # arena -> column of extents with its begin


@dataclass(slots=True)
class _Resident:
    index: ClosedIndex  # held, so that its id stays its own
    number: int
    begin: dict[str, int]  # arena -> first element (first row of dense)
    size: dict[str, int]  # arena -> elements (rows of dense)
    classes: int
    class_of: np.ndarray
    users: int = 0


class TablePool:
    """The tables of the indexes in use and of those used last, at most `capacity_bytes` of them."""

    def __init__(self, vocabulary: Vocabulary, device: torch.device, capacity_bytes: int = DEFAULT_BYTES) -> None:
        self.device = device
        self.capacity_bytes = capacity_bytes
        self.vocabulary_size = vocabulary.size
        data, begin = _token_bytes(vocabulary)
        self.token_lengths = np.diff(begin)  # int64[vocabulary]
        self.longest_token = int(self.token_lengths.max(initial=0))
        words = -(-vocabulary.size // 32)
        self._residents: OrderedDict[int, _Resident] = OrderedDict()  # id of the index -> it, least recently used first
        self._by_number: dict[int, _Resident] = {}
        self._used = dict.fromkeys(_ARENAS, 0)
        self._arrays: dict[tuple[str, ...], tuple[np.ndarray, ...]] = {}  # of the present tables, by their names
        self.tables = Tables(
            token_data=torch.from_numpy(data).to(device),
            token_begin=torch.from_numpy(begin).to(device),
            extents=torch.zeros((1, 5), dtype=torch.int64, device=device),
            class_of=torch.zeros((1, 256), dtype=torch.uint8, device=device),
            delta=torch.zeros(1, dtype=torch.int32, device=device),
            place=torch.zeros(1, dtype=torch.int32, device=device),
            accepting=torch.zeros(1, dtype=torch.uint8, device=device),
            dense=torch.zeros((1, words), dtype=torch.int32, device=device),
            lists=torch.zeros(1, dtype=torch.int32, device=device),
        )

    def acquire(self, index: ClosedIndex) -> int | None:
        """The number of an index, which stays resident until it is released; None where there is no room for it."""
        resident = self._residents.get(id(index))
        if resident is None:
            arrays = _arrays_of(index)
            if not self._make_room(sum(arrays[name].nbytes for name in _ARENAS)):
                return None
            resident = self._upload(index, arrays)
        self._residents.move_to_end(id(index))
        resident.users += 1
        return resident.number

    def release(self, number: int) -> None:
        """One user less. The index stays resident while there is room."""
        resident = self._by_number[number]
        assert resident.users > 0, "released more often than acquired"
        resident.users -= 1

    def arrays(self, *names: str) -> tuple[np.ndarray, ...]:
        """Tables by name, as arrays over the same memory; only where the device is the CPU."""
        known = self._arrays.get(names)
        if known is None:
            known = self._arrays[names] = tuple(getattr(self.tables, name).numpy() for name in names)
        return known

    @property
    def used_bytes(self) -> int:
        """Of the resident indexes, in use or not."""
        return sum(self._used[name] * _stride_bytes(getattr(self.tables, name)) for name in _ARENAS)

    def __contains__(self, index: ClosedIndex) -> bool:
        return id(index) in self._residents

    # --- room ---------------------------------------------------------------------------------------------------------

    def _make_room(self, wanted_bytes: int) -> bool:
        """Evicts what nobody uses until `wanted_bytes` fit; False, and nothing evicted, where they cannot.

        Some more goes with it: whatever stays is moved, and a pool that is full would be moved for every new index.
        """
        missing = self.used_bytes + wanted_bytes - self.capacity_bytes
        if missing <= 0:
            return True
        victims, freed = [], 0
        for resident in self._residents.values():
            if freed >= missing + self.capacity_bytes // _SPARE:
                break
            if resident.users == 0:
                victims.append(resident)
                freed += sum(resident.size[name] * _stride_bytes(getattr(self.tables, name)) for name in _ARENAS)
        if freed < missing:
            return False
        for resident in victims:
            del self._residents[id(resident.index)], self._by_number[resident.number]
        self._compact()
        return True

    def _compact(self) -> None:
        """Moves what stays together. In stream order with the kernels of earlier steps, which still see the old tensors."""
        for name in _ARENAS:
            old = getattr(self.tables, name)
            kept = [old[r.begin[name] : r.begin[name] + r.size[name]] for r in self._by_number.values()]
            end = 0
            for resident in self._by_number.values():
                resident.begin[name] = end
                end += resident.size[name]
            self._used[name] = end
            new = torch.zeros((max(end, 1), *old.shape[1:]), dtype=old.dtype, device=self.device)
            if end:
                torch.cat(kept, out=new)
            setattr(self.tables, name, new)
        self._write_extents()

    def _upload(self, index: ClosedIndex, arrays: dict[str, np.ndarray]) -> _Resident:
        number = next(n for n in range(len(self._by_number) + 1) if n not in self._by_number)
        class_of = arrays.pop("class_of")
        classes = int(arrays.pop("classes")[0])
        begin, size = {}, {}
        for name in _ARENAS:
            array = arrays[name]
            begin[name], size[name] = self._used[name], len(array)
            self._append(name, array)
        resident = _Resident(index, number, begin, size, classes, class_of)
        self._residents[id(index)] = self._by_number[number] = resident
        self._write_extents()
        return resident

    def _append(self, name: str, array: np.ndarray) -> None:
        arena, begin = getattr(self.tables, name), self._used[name]
        end = begin + len(array)
        if end > len(arena):
            grown = torch.zeros((max(end, len(arena) + len(arena) // 4), *arena.shape[1:]), dtype=arena.dtype)
            grown = grown.to(self.device)
            grown[:begin] = arena[:begin]
            setattr(self.tables, name, grown)
            arena = grown
        if len(array):
            arena[begin:end] = torch.from_numpy(array).to(self.device)
        self._used[name] = end

    def _write_extents(self) -> None:
        self._arrays.clear()  # whatever changes the tables comes by here
        count = max(self._by_number, default=0) + 1
        extents = np.zeros((count, 5), np.int64)
        class_of = np.zeros((count, 256), np.uint8)
        for number, resident in self._by_number.items():
            for name, column in _COLUMN.items():
                extents[number, column] = resident.begin[name]
            extents[number, CLASSES] = resident.classes
            class_of[number] = resident.class_of
        self.tables.extents = torch.from_numpy(extents).to(self.device)
        self.tables.class_of = torch.from_numpy(class_of).to(self.device)


def _arrays_of(index: ClosedIndex) -> dict[str, np.ndarray]:
    """The arrays of a closed index in the pool's form; copies, writable and contiguous."""
    assert index.is_closed
    arrays = index.to_arrays()
    place = arrays["place"][arrays["row_of"]]
    return {
        "class_of": np.array(arrays["class_of"], np.uint8),
        "classes": np.array([arrays["delta"].shape[1]]),
        "delta": np.array(arrays["delta"], np.int32).reshape(-1),
        "place": np.array(place, np.int32),
        "accepting": np.array(arrays["accepting"], np.uint8),
        "dense": np.array(arrays["dense"], np.uint32).view(np.int32),
        "lists": np.array(arrays["lists"], np.int32),
    }


def _token_bytes(vocabulary: Vocabulary) -> tuple[np.ndarray, np.ndarray]:
    """Bytes by token id, special tokens under the byte strings that stand for them; nothing for other tokens without text."""
    pieces: list[bytes] = list(vocabulary.token_bytes)
    for name, token in vocabulary.special_token_ids.items():
        pieces[token] = special_token_bytes(name)
    begin = np.zeros(len(pieces) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, pieces), np.int64, len(pieces)), out=begin[1:])
    return np.frombuffer(bytearray(b"".join(pieces) or b"\0"), np.uint8), begin


def _stride_bytes(arena: Any) -> int:
    """Bytes of one element, or of one row."""
    return arena.element_size() * (arena.shape[1] if arena.dim() == 2 else 1)

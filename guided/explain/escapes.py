"""The character view of a JSON document without the escapes that only spell a character in another way.

Inside a JSON string a character may be written as itself or, after a backslash, in up to two other ways. People who look at the
automaton want to see the characters: `[^"\\\\]`, not the eleven states that `\\ud83d\\ude00` passes through.
"""

from __future__ import annotations

from dataclasses import replace

from guided.automaton.charset import CharSet
from guided.explain.characters import CharacterView, Moves

_BACKSLASH, _U = CharSet.of("\\"), CharSet.of("u")
_SHORT = CharSet.of('"\\/bfnrt')  # RFC 8259, section 7
_HEX = CharSet.of("0123456789abcdefABCDEF")
_D, _HIGH = CharSet.of("dD"), CharSet.of("89abAB")  # \\uD8xx .. \\uDBxx begins a surrogate pair

_Ways = set[tuple[int, str]]  # (state, what was read so far: "", "d" = D, "high" = D8..DB)


class EscapeFreeView(CharacterView):
    """Leaves out a backslash wherever all its escapes lead to states that unescaped characters lead to as well."""

    def moves(self, state: int) -> Moves:
        moves = super().moves(state)
        escape = next((target for characters, target in moves.characters if characters == _BACKSLASH), None)
        if escape is None:
            return moves
        direct = tuple(edge for edge in moves.characters if edge[1] != escape)
        ends = self._escape_ends(escape)
        if ends is None or not ends <= {target for _, target in direct}:
            return moves
        return replace(moves, characters=direct)

    def _escape_ends(self, state: int) -> set[int] | None:
        """The states after every escape whose backslash was read; None where something else follows it."""
        ends: set[int] = set()
        for characters, target in super().moves(state).characters:
            if not characters <= _SHORT | _U:
                return None
            if characters & _SHORT:
                ends.add(target)
            if characters & _U:
                ends |= self._after_hex(target)
        return ends

    def _after_hex(self, state: int) -> set[int]:
        """The states after four hex digits, or after a pair of surrogates."""
        ways: _Ways = {(state, "")}
        for position in range(4):
            ways = {way for current in ways for way in self._hex_digit(current, position)}
        plain = {end for end, read in ways if read != "high"}
        pairs = {low for end, read in ways if read == "high" for low in self._after_low_surrogate(end)}
        return plain | pairs

    def _hex_digit(self, way: tuple[int, str], position: int) -> _Ways:
        state, read = way
        found: _Ways = set()
        for characters, target in super().moves(state).characters:
            special = _D if position == 0 else _HIGH if (position, read) == (1, "d") else None
            rest = characters & _HEX
            if special is not None and rest & special:
                found.add((target, "d" if position == 0 else "high"))
                rest = rest - special
            if rest:
                found.add((target, "high" if position > 1 and read == "high" else ""))
        return found

    def _after_low_surrogate(self, state: int) -> set[int]:
        states = {state}
        for symbol in (_BACKSLASH, _U, _HEX, _HEX, _HEX, _HEX):
            edges = [edge for current in states for edge in super(EscapeFreeView, self).moves(current).characters]
            states = {target for characters, target in edges if characters & symbol}
        return states

"""`guided check`: a constraint and a text in; whether it matches, and if not, where it stops and what could come there, out."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

import numpy as np

from guided.cli.arguments import UsageError
from guided.cli.report import write_json
from guided.cli.stages import Stages, embedded_model
from guided.explain.characters import CharacterView
from guided.explain.labels import cells, set_label, text_label
from guided.explain.stop import Continuation, Stop, continuations, find_stop
from guided.index.token_index import TokenIndex
from guided.vocabulary import Vocabulary

_MAX_SHOWN = 12  # ways to go on, tokens
_CONTEXT = 60  # characters shown before the caret


def run(args: argparse.Namespace) -> int:
    stages = Stages(args)
    data = _text(args)
    dfa = stages.automaton()
    view = CharacterView(dfa)
    stop = find_stop(view, data)
    if stop.matches:
        write_json({"ok": True, "matches": True}) if args.json else print("matches")
        return 0
    ways = continuations(view, stop.state)
    may_end = view.is_accepting(stop.state)
    tokens = None
    if args.tokenizer or embedded_model():
        tokens = _allowed_tokens(TokenIndex(dfa, vocabulary := stages.vocabulary()), vocabulary, stop.state)
    if args.json:
        write_json(_as_json(stop, ways, may_end, view, tokens))
    else:
        _show(data, stop, ways, may_end, tokens)
    return 1


def _text(args: argparse.Namespace) -> bytes:
    """The bytes of the text, also where the terminal gave none that are UTF-8."""
    if args.text != "-":
        return os.fsencode(args.text)
    if "-" in (args.schema, args.choices, args.grammar, args.structural_tag):
        raise UsageError("stdin can be the constraint or the text, not both")
    data = sys.stdin.buffer.read()
    return data if args.keep_newline else data.removesuffix(b"\n").removesuffix(b"\r")


def _allowed_tokens(index: TokenIndex, vocabulary: Vocabulary, state: int) -> tuple[int, list[bytes]]:
    """(number of allowed tokens, the bytes of the first ones by id, which are the most common ones)."""
    bits = np.unpackbits(index.mask(state).view(np.uint8), bitorder="little")
    allowed = np.flatnonzero(bits)
    return len(allowed), [vocabulary.bytes_of(int(token_id)) for token_id in allowed[:_MAX_SHOWN]]


def _as_json(
    stop: Stop, ways: list[Continuation], may_end: bool, view: CharacterView, tokens: tuple[int, list[bytes]] | None
) -> dict[str, Any]:
    allowed = view.moves(stop.state).allowed
    found: dict[str, Any] = {
        "ok": True,
        "matches": False,
        "incomplete": stop.is_prefix,
        "byte": stop.byte,
        "character": stop.character,
        "may_end": may_end,
        "allowed": set_label(allowed) if allowed else "",
        "continuations": [way.label for way in ways],
    }
    if tokens is not None:
        found["tokens"] = {"count": tokens[0], "sample": [token.decode(errors="replace") for token in tokens[1]]}
    return found


def _show(
    data: bytes, stop: Stop, ways: list[Continuation], may_end: bool, tokens: tuple[int, list[bytes]] | None
) -> None:
    if stop.is_prefix:
        print(f"does not match: it is the beginning of a match, but ends too early ({stop.character} characters)")
    else:
        print(f"does not match: stops at character {stop.character}, byte {stop.byte}")
    print(_caret(data, stop))
    shown = [way.label for way in ways[:_MAX_SHOWN]]
    if len(ways) > _MAX_SHOWN:
        shown.append(f"… {len(ways) - _MAX_SHOWN:,} more ways")
    here = "after it" if stop.is_prefix else "here"
    if may_end:
        print(f"{here} the text may end" + (", or go on with" if shown else ""))
    elif shown:
        print(f"{here} may come")
    for label in shown:
        print(f"  {_visible(label)}")
    if tokens is not None and tokens[0]:
        sample = "  ".join(_visible(text_label(token.decode(errors="backslashreplace"))) for token in tokens[1])
        print(f"tokens allowed {here}: {tokens[0]:,}, such as\n  {sample}")


def _visible(text: str) -> str:
    return text.replace(" ", "␣")


def _caret(data: bytes, stop: Stop) -> str:
    """The line of the text where it stops, with a caret under the character."""
    begin = data.rfind(b"\n", 0, stop.character_byte) + 1
    end = data.find(b"\n", stop.character_byte)
    before = data[begin : stop.character_byte].decode(errors="replace")[-_CONTEXT:]
    after = data[stop.character_byte : end if end >= 0 else len(data)].decode(errors="backslashreplace")[:_CONTEXT]
    if end == stop.character_byte:  # stops at the line break itself
        after = "\\n"
    before, after = text_label(before), text_label(after)
    return f"  {before}{after}\n  {' ' * cells(before)}^"

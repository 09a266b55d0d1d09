"""The slow truth about structural tags: where a format may end in a text, found by trying every place."""

from __future__ import annotations

import re
from collections.abc import Iterator

from guided.structural_tag.formats import (
    AnyText,
    Dispatched,
    Either,
    Exactly,
    Format,
    Inner,
    Repeat,
    Separated,
    Sequence,
    SpecialToken,
    Tag,
    Triggered,
)


def matches(format: Format, text: str) -> bool:
    return len(text) in set(_ends(format, text, 0, (), ()))


def _ends(format: Format, text: str, begin: int, ends: tuple[str, ...], avoided: tuple[str, ...]) -> Iterator[int]:
    """Where a format and one of the ends after it, if there are any, may have been read, from `begin` on."""
    inside = avoided + ends  # for what is followed by more before the end
    match format:
        case AnyText(more):
            yield from _free(text, begin, dict.fromkeys(ends), avoided + more)
        case Exactly(exact):
            yield from _then_one_of(ends, text, [begin + len(exact)] if text.startswith(exact, begin) else [])
        case Inner("regex", pattern):
            places = range(begin, len(text) + 1)
            yield from _then_one_of(ends, text, [p for p in places if re.fullmatch(pattern, text[begin:p])])
        case Sequence(elements):
            places = {begin}
            for element in elements[:-1]:
                places = {q for p in places for q in _ends(element, text, p, (), inside)}
            for place in places:
                yield from _ends(elements[-1], text, place, ends, avoided)
        case Either(elements):
            for element in elements:
                yield from _ends(element, text, begin, ends, avoided)
        case Repeat(content, least, most):
            yield from _then_one_of(ends, text, _repeated(content, least, most, text, begin, inside))
        case Tag():
            yield from _tag(format, text, begin, ends, avoided)
        case Separated(tags, separator, at_least_one, only_one):
            items: list[Format] = [*tags]
            more = Sequence((Exactly(separator), Either(tuple(items))))
            rest = Repeat(more, 0, 0 if only_one else None)
            yield from _ends(
                Repeat(Sequence((Either(tuple(items)), rest)), int(at_least_one), 1), text, begin, ends, avoided
            )
        case Triggered() | Dispatched():
            yield from _triggered(format, text, begin, ends, avoided)
        case SpecialToken():
            raise AssertionError("no text")


def _then_one_of(ends: tuple[str, ...], text: str, places) -> Iterator[int]:
    for place in places:
        yield from (place + len(end) for end in ends if text.startswith(end, place))
        if not ends:
            yield place


def _repeated(content: Format, least: int, most: int | None, text: str, begin: int, avoided) -> set[int]:
    found: set[int] = set()
    places, count, seen = {begin}, 0, set()
    while places and (most is None or count <= most) and (count, frozenset(places)) not in seen:
        if count >= least:
            found |= places
        if count > len(text) + least:  # nothing new comes from more copies of nothing
            break
        places = {q for p in places for q in _ends(content, text, p, (), avoided)}
        count += 1
    return found


def _tag(tag: Tag, text: str, begin: int, ends: tuple[str, ...], avoided: tuple[str, ...]) -> Iterator[int]:
    if not text.startswith(tag.begin, begin):
        return
    opened = begin + len(tag.begin)
    own = tuple(end for end in tag.ends if end)
    if own:
        yield from _then_one_of(ends, text, _ends(tag.content, text, opened, own, ()))
    if "" in tag.ends:
        yield from _ends(tag.content, text, opened, ends, avoided + own)


def _free(text: str, begin: int, marks, avoided: tuple[str, ...]) -> Iterator[int]:
    """Where free text may end: anywhere if there are no marks, else where the first of them is complete, after a text that may be."""
    for end in range(begin, len(text) + 1):
        found = [mark for mark in marks if text.endswith(mark, begin, end)]
        lengths = {len(mark) for mark in found} if marks else {0}
        if any(not any(string in text[begin : end - length] for string in avoided) for length in lengths):
            yield end
            if found:
                return


def _triggered(format: Triggered | Dispatched, text: str, begin: int, ends, avoided) -> Iterator[int]:
    after_mark: dict[str, list[Format]] = {}
    if isinstance(format, Triggered):
        for tag in format.tags:
            trigger = next(one for one in format.triggers if tag.begin.startswith(one))
            after_mark.setdefault(trigger, []).append(Tag(tag.begin[len(trigger) :], tag.content, tag.ends))
        loop, first = not format.only_one, Either(format.tags) if format.at_least_one else None
    else:
        for pattern, content in format.rules:
            after_mark.setdefault(pattern, []).append(content)
        loop, first = format.loop, None
    avoided = avoided + format.avoided
    waiting = [begin] if first is None else []
    seen: set[int] = set()
    closed = set() if first is None else set(_ends(first, text, begin, (), ()))
    while waiting or closed:
        if closed:
            place = closed.pop()
            if not loop:
                yield from _then_one_of(ends, text, [place])
            elif place not in seen:
                waiting.append(place)
            continue
        place = waiting.pop()
        if place in seen:
            continue
        seen.add(place)
        if not ends:
            stop = next(
                (end for end in range(place, len(text) + 1) if text[place:end].endswith(tuple(after_mark))), None
            )
            last = len(text) if stop is None else stop - 1
            yield from (p for p in range(place, last + 1) if not any(a in text[place:p] for a in avoided))
        for end in {*_free(text, place, [*after_mark, *ends], avoided)}:
            for mark in [*after_mark, *ends]:
                if not text.endswith(mark, place, end) or any(a in text[place : end - len(mark)] for a in avoided):
                    continue
                if mark in after_mark:
                    closed |= {q for rest in after_mark[mark] for q in _ends(rest, text, end, (), ())}
                else:
                    yield end

"""A format in, the states of its texts in a network out; knows no syntax of structural tags.

`_Writer.write` puts a format between two states. Free text runs up to what ends the tag around it, so the ends of the tag are
written together with the last format of its content; everywhere else in the content they are kept out of free text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from guided.automaton.encoding import Utf8Encoder, embed_dfa
from guided.automaton.free_text import free_text
from guided.automaton.network import Network, special_token_bytes
from guided.automaton.spelling import Spelled, names_in
from guided.errors import Unsatisfiable
from guided.limits import Budget
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
from guided.structural_tag.inner import InnerRules, Strings


@dataclass(frozen=True, slots=True)
class _Around:
    """What surrounds a format.

    Attributes:
        ends: what follows it, one of them; none: nothing that is written with it.
        avoided: strings that its free texts do not contain.
    """

    ends: tuple[str | SpecialToken, ...] = ()
    avoided: tuple[str, ...] = ()

    def within(self) -> _Around:
        """For formats that others follow before the end."""
        return _Around((), self.avoided + self.texts)

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(end for end in self.ends if isinstance(end, str))


def write_network(format: Format, options: Mapping[str, str], budget: Budget) -> Network:
    """The network of a format.

    Args:
        options: of `Constraint.json_schema`, for each JSON in it.

    Raises:
        ConstraintError: what is inside is refused; the pointer leads there.
        Unsatisfiable: no text has the format.
    """
    network = Network()
    writer = _Writer(network, InnerRules(network, options, budget), budget)
    live = writer.live(format)
    if live is None:
        raise Unsatisfiable("nothing satisfies the structural tag")
    start, end = network.state(), network.state(final=True)
    writer.write(live, start, end, _Around())
    network.root = network.rule()
    network.define(network.root, start)
    return network


class _Writer:
    def __init__(self, network: Network, inner: InnerRules, budget: Budget) -> None:
        self._network = network
        self._inner = inner
        self._budget = budget

    # --- what no text has -------------------------------------------------------------------------------------------

    def live(self, format: Format) -> Format | None:
        """The format without the parts that nothing satisfies; None where nothing is left."""
        match format:
            case Inner():
                return format if self._inner.has_text(format) else None
            case Sequence(elements):
                parts = [self.live(element) for element in elements]
                return None if None in parts else Sequence(tuple(part for part in parts if part is not None))
            case Either(elements):
                found = tuple(part for element in elements if (part := self.live(element)) is not None)
                return Either(found) if found else None
            case Repeat(content, least, most):
                part = self.live(content)
                if part is not None:
                    return Repeat(part, least, most)
                return None if least else Exactly("")
            case Tag(_, content, _):
                part = self.live(content)
                return None if part is None else replace(format, content=part)
            case Separated(tags):
                found = self._live_tags(tags)
                if not found:
                    return None if format.at_least_one else Exactly("")
                return replace(format, tags=found)
            case Triggered(tags=tags):
                found = self._live_tags(tags)
                if format.at_least_one and not found:
                    return None
                return replace(format, tags=found)
            case Dispatched(rules):
                kept = tuple((pattern, self.live(content)) for pattern, content in rules)
                return replace(format, rules=tuple((pattern, part) for pattern, part in kept if part is not None))
        return format

    def _live_tags(self, tags: tuple[Tag, ...]) -> tuple[Tag, ...]:
        return tuple(part for tag in tags if isinstance(part := self.live(tag), Tag))

    # --- formats ----------------------------------------------------------------------------------------------------

    def write(self, format: Format, source: int, target: int, around: _Around) -> None:
        """From source through the format, and through one of the ends around it, to target."""
        self._budget.check("structural tag", states=len(self._network.final))
        match format:
            case AnyText(avoided):
                self._free(source, target, replace(around, avoided=around.avoided + avoided), {})
            case Exactly(text):
                self._text(source, text, self._ending(around, target))
            case SpecialToken(name):
                self._network.literal(source, special_token_bytes(name), self._ending(around, target))
            case Inner():
                self._write_inner(format, source, target, around)
            case Sequence(elements):
                for element in elements[:-1]:
                    following = self._network.state()
                    self.write(element, source, following, around.within())
                    source = following
                self.write(elements[-1], source, target, around)
            case Either(elements):
                for element in elements:
                    self.write(element, source, target, around)
            case Repeat():
                self._repeat(format, source, target, around)
            case Tag():
                self._tag(format, source, target, around)
            case Separated():
                self._separated(format, source, target, around)
            case Triggered():
                self._triggered(format, source, target, around)
            case Dispatched():
                self._dispatched(format, source, target, around)

    def _ending(self, around: _Around, target: int) -> int:
        """The state from which one of the ends leads to the target."""
        if not around.ends:
            return target
        state = self._network.state()
        for end in around.ends:
            self._text(state, end, target)
        return state

    def _text(self, source: int, text: str | SpecialToken, target: int) -> None:
        if isinstance(text, SpecialToken):
            self._network.literal(source, special_token_bytes(text.name), target)
            return
        start = self._network.state()
        data = text.encode()
        self._network.epsilon(source, start)
        self._network.epsilon(Spelled(self._network, start).after(data, len(data)), target)

    def _free(self, source: int, target: int, around: _Around, marks: Mapping[str, int]) -> None:
        """Free text between two states, which goes on elsewhere after one of the marks."""
        tokens = [end for end in around.ends if isinstance(end, SpecialToken)]
        end: int | None = None
        if tokens or not around.ends:
            end = self._ending(_Around(tuple(tokens)), target)
        all_marks = {**dict.fromkeys(around.texts, target), **marks}
        self._network.epsilon(source, free_text(self._network, all_marks, around.avoided, end))

    def _write_inner(self, format: Inner, source: int, target: int, around: _Around) -> None:
        found = self._inner.of(format)
        if not isinstance(found, Strings):
            self._inner.call(found, source, self._ending(around, target))
        elif found.are_all:
            self._free(source, target, around, {})
        else:
            language = found.without(around.texts + around.avoided, self._budget)
            encoder = Utf8Encoder(self._network)
            self._network.epsilon(source, embed_dfa(self._network, language, encoder, self._ending(around, target)))

    def _repeat(self, format: Repeat, source: int, target: int, around: _Around) -> None:
        copies = format.least if format.most is None else format.most
        self._budget.check("structural tag", states=len(self._network.final) + copies)
        within, ending = around.within(), self._ending(around, target)
        for number in range(copies):
            following = self._network.state()
            self.write(format.content, source, following, within)
            if number >= format.least:
                self._network.epsilon(source, ending)
            source = following
        if format.most is None:
            hub = self._network.state()
            self._network.epsilon(source, hub)
            self.write(format.content, hub, hub, within)
            source = hub
        self._network.epsilon(source, ending)

    def _tag(self, format: Tag, source: int, target: int, around: _Around) -> None:
        opened = self._network.state()
        self._text(source, format.begin, opened)
        self._content(format, opened, target, around)

    def _content(self, tag: Tag, opened: int, target: int, around: _Around) -> None:
        """What follows the begin of a tag, and what follows the tag."""
        ends = tuple(end for end in tag.ends if end != "")
        if ends:
            self.write(tag.content, opened, self._ending(around, target), _Around(ends))
        if len(ends) < len(tag.ends):
            texts = tuple(end for end in ends if isinstance(end, str))
            self.write(tag.content, opened, target, replace(around, avoided=around.avoided + texts))

    def _separated(self, format: Separated, source: int, target: int, around: _Around) -> None:
        before, after, ending = self._network.state(), self._network.state(), self._ending(around, target)
        self._network.epsilon(source, before)
        for tag in format.tags:
            self._tag(tag, before, after, around.within())
        if not format.only_one:
            self._text(after, format.separator, before)
        if not format.at_least_one:
            self._network.epsilon(source, ending)
        self._network.epsilon(after, ending)

    def _triggered(self, format: Triggered, source: int, target: int, around: _Around) -> None:
        text = self._network.state()  # where free text begins
        after = self._ending(around, target) if format.only_one else text
        start = self._network.state()
        begins = Spelled(self._network, start)
        marks: dict[str, int] = {}
        for tag in format.tags:
            assert isinstance(tag.begin, str)
            begin = tag.begin.encode()
            opened = self._network.state()
            self._network.epsilon(begins.after(begin, len(begin)), opened)
            self._content(tag, opened, after, _Around())
            trigger = next(one for one in format.triggers if tag.begin.startswith(one))
            for size in [len(trigger.encode()), *_after_names(begin, len(trigger.encode()))]:
                marks[begin[:size].decode()] = begins.after(begin, size)
        if format.at_least_one:
            self._network.epsilon(source, start)
        else:
            self._network.epsilon(source, text)
        if not (format.at_least_one and format.only_one):
            unused = tuple(trigger for trigger in format.triggers if trigger not in marks)
            self._free(text, target, replace(around, avoided=around.avoided + format.avoided + unused), marks)

    def _dispatched(self, format: Dispatched, source: int, target: int, around: _Around) -> None:
        text = self._network.state()
        after = text if format.loop else self._ending(around, target)
        marks: dict[str, int] = {}
        for pattern, content in format.rules:
            opened = marks.setdefault(pattern, self._network.state())
            self.write(content, opened, after, _Around())
        self._network.epsilon(source, text)
        self._free(text, target, replace(around, avoided=around.avoided + format.avoided), marks)


def _after_names(begin: bytes, trigger: int) -> Iterator[int]:
    """Where the special token ends, if there may be one, in which the trigger ends: it is read as one, or not at all."""
    return (end for start, end, _ in names_in(begin) if start < trigger < end)

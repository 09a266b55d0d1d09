"""A structural tag as clients write it in, its `Format` out; what cannot be enforced is refused by name and place.

Both forms of vLLM 0.32 are read: {"type": "structural_tag", "format": ...} with the formats of xgrammar 0.2, and the older
{"structures": [{"begin", "schema", "end"}], "triggers": [...]}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from guided.errors import InvalidConstraint, LimitExceeded, UnsupportedKeyword
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
from guided.structural_tag.xml_arguments import STYLES, xml_arguments

_MOST_NESTED = 100  # formats inside of formats
_MOST_CHARACTERS = 4_000  # of the strings that one free text is searched for
_REQUIRED: Any = object()

Object = Mapping[str, Any]


def read(value: Any) -> Format:
    """The format of a structural tag.

    Raises:
        InvalidConstraint: it is malformed; with the pointer to the place.
        UnsupportedKeyword: a format, or an option of one, that is not enforced.
        LimitExceeded: it is nested too deeply, or searches a text for too much.
    """
    if not isinstance(value, Mapping):
        raise InvalidConstraint(f"a structural tag is an object, not {type(value).__name__}", pointer="")
    if value.get("type", "structural_tag") != "structural_tag":
        raise InvalidConstraint(f"must be structural_tag, not {value['type']!r}", pointer="/type")
    if "structures" in value:
        return _legacy(value)
    return _read(_field(value, "format", ("type", "format"), ""), "/format", 0)


def _legacy(value: Object) -> Format:
    known = ("type", "structures", "triggers")
    tags = []
    for position, structure in enumerate(_list(value, "structures", known, "")):
        place = f"/structures/{position}"
        inside = ("begin", "schema", "end")
        schema = _field(structure, "schema", inside, place, default=None)
        content = Inner("json", True if schema is None else schema, f"{place}/schema")
        begin, end = (_string(structure, name, inside, place) for name in ("begin", "end"))
        tags.append(Tag(begin, content, (end,)))
    triggers = _strings(value, "triggers", known, "")
    _refuse_unmatched(triggers, tags, "/structures")
    return Triggered(triggers, tuple(tags), at_least_one=False, only_one=False, avoided=())


# --- formats ----------------------------------------------------------------------------------------------------------


def _read(value: Any, place: str, depth: int) -> Format:
    if depth > _MOST_NESTED:
        raise LimitExceeded(f"formats are nested more than {_MOST_NESTED} deep", limit="nesting", pointer=place)
    if not isinstance(value, Mapping):
        raise InvalidConstraint(f"a format is an object, not {type(value).__name__}", pointer=place)
    kind = value.get("type")
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is not None:
        return reader(value, place, depth)
    if kind in _BY_TOKEN:
        raise UnsupportedKeyword(
            f"{kind} counts tokens, and is not enforced",
            keyword=str(kind),
            pointer=f"{place}/type",
            hint="Formats over text do the same for every vocabulary, and find special tokens by their names",
        )
    raise InvalidConstraint(f"must be one of {', '.join(_READERS)}, not {kind!r}", pointer=f"{place}/type")


def _any_text(value: Object, place: str, depth: int) -> Format:
    known = ("type", "excludes", "max_tokens", "max_chars")
    for name in ("max_tokens", "max_chars"):
        if value.get(name) is not None:
            raise UnsupportedKeyword(f"{name} is not enforced", keyword=name, pointer=f"{place}/{name}")
    return AnyText(_avoided(value, known, place))


def _const_string(value: Object, place: str, depth: int) -> Format:
    return Exactly(_string(value, "value", ("type", "value"), place))


def _token(value: Object, place: str, depth: int) -> SpecialToken:
    token = _field(value, "token", ("type", "token"), place)
    if not isinstance(token, str) or not token:
        raise UnsupportedKeyword("tokens are given by name, not by number", keyword="token", pointer=f"{place}/token")
    return SpecialToken(token)


def _json_schema(value: Object, place: str, depth: int) -> Format:
    known = ("type", "json_schema", "style", "any_order", "max_whitespace_cnt", "excludes")
    schema = _field(value, "json_schema", known, place)
    if _strings(value, "excludes", known, place, default=()):
        raise UnsupportedKeyword("excludes is not enforced in JSON", keyword="excludes", pointer=f"{place}/excludes")
    options = {}
    if _boolean(value, "any_order", known, place):
        options["property_order"] = "any"
    most = _field(value, "max_whitespace_cnt", known, place, default=None)
    if most is not None:
        if not isinstance(most, int) or isinstance(most, bool) or most < 0:
            raise InvalidConstraint("must be a number of characters", pointer=f"{place}/max_whitespace_cnt")
        options["whitespace_pattern"] = f"[ \\n\\r\\t]{{0,{most}}}"
    inner = Inner("json", schema, f"{place}/json_schema", tuple(options.items()))
    style = _field(value, "style", known, place, default="json")
    if style == "json":
        return inner
    if style not in STYLES:
        raise UnsupportedKeyword(f"style {style!r} is not enforced", keyword="style", pointer=f"{place}/style")
    return xml_arguments(inner, STYLES[style])


def _qwen_xml_parameter(value: Object, place: str, depth: int) -> Format:
    return _json_schema({**value, "type": "json_schema", "style": "qwen_xml"}, place, depth)


def _regex(value: Object, place: str, depth: int) -> Format:
    return Inner("regex", _string(value, "pattern", ("type", "pattern"), place), f"{place}/pattern")


def _grammar(value: Object, place: str, depth: int) -> Format:
    return Inner("grammar", _string(value, "grammar", ("type", "grammar"), place), f"{place}/grammar")


def _json_string(value: Object, place: str, depth: int) -> Format:
    """Our own: a text that is written as a JSON string."""
    content = _read(_field(value, "content", ("type", "content"), place), f"{place}/content", depth + 1)
    if not isinstance(content, Inner) or content.kind not in ("regex", "grammar"):
        raise InvalidConstraint("must be a regex or a grammar", pointer=f"{place}/content")
    return Sequence((Exactly('"'), replace(content, quoted=True), Exactly('"')))


def _sequence(value: Object, place: str, depth: int) -> Format:
    return Sequence(_elements(value, place, depth))


def _or(value: Object, place: str, depth: int) -> Format:
    return Either(_elements(value, place, depth))


def _elements(value: Object, place: str, depth: int) -> tuple[Format, ...]:
    elements = _list(value, "elements", ("type", "elements"), place)
    if not elements:
        raise InvalidConstraint("has no elements", pointer=f"{place}/elements")
    return tuple(_read(one, f"{place}/elements/{number}", depth + 1) for number, one in enumerate(elements))


def _counted(least: int, most: int | None) -> Callable[[Object, str, int], Format]:
    def read_counted(value: Object, place: str, depth: int) -> Format:
        content = _field(value, "content", ("type", "content"), place)
        return Repeat(_read(content, f"{place}/content", depth + 1), least, most)

    return read_counted


def _repeat(value: Object, place: str, depth: int) -> Format:
    known = ("type", "min", "max", "content")
    content = _read(_field(value, "content", known, place), f"{place}/content", depth + 1)
    least, most = (_field(value, name, known, place) for name in ("min", "max"))
    for name, number, smallest in (("min", least, 0), ("max", most, -1)):
        if not isinstance(number, int) or isinstance(number, bool) or number < smallest:
            raise InvalidConstraint(f"must be a number from {smallest} on", pointer=f"{place}/{name}")
    if -1 < most < least:
        raise InvalidConstraint("is less than min", pointer=f"{place}/max")
    return Repeat(content, least, None if most == -1 else most)


def _tag(value: Any, place: str, depth: int) -> Tag:
    known = ("type", "begin", "content", "end")
    begin = _field(value, "begin", known, place)
    content = _read(_field(value, "content", known, place), f"{place}/content", depth + 1)
    if value.get("type", "tag") != "tag":
        raise InvalidConstraint(f"must be tag, not {value['type']!r}", pointer=f"{place}/type")
    end = _field(value, "end", known, place)
    ends = end if isinstance(end, list) else [end]
    if not ends:
        raise InvalidConstraint("has no string", pointer=f"{place}/end")
    return Tag(_text_or_token(begin, f"{place}/begin"), content, tuple(_text_or_token(e, f"{place}/end") for e in ends))


def _text_or_token(value: Any, place: str) -> str | SpecialToken:
    if isinstance(value, Mapping):
        return _token(value, place, 0)
    return _text(value, place)


def _triggered_tags(value: Object, place: str, depth: int) -> Format:
    known = ("type", "triggers", "tags", "at_least_one", "stop_after_first", "excludes")
    triggers = _strings(value, "triggers", known, place)
    tags = _tags(value, known, place, depth)
    _refuse_unmatched(triggers, tags, f"{place}/tags")
    at_least_one, only_one = (_boolean(value, name, known, place) for name in ("at_least_one", "stop_after_first"))
    return Triggered(triggers, tags, at_least_one, only_one, _avoided(value, known, place))


def _tags_with_separator(value: Object, place: str, depth: int) -> Format:
    known = ("type", "tags", "separator", "at_least_one", "stop_after_first")
    tags = _tags(value, known, place, depth)
    if not tags:
        raise InvalidConstraint("has no tags", pointer=f"{place}/tags")
    separator = _string(value, "separator", known, place)
    return Separated(
        tags, separator, *(_boolean(value, name, known, place) for name in ("at_least_one", "stop_after_first"))
    )


def _tags(value: Object, known: tuple[str, ...], place: str, depth: int) -> tuple[Tag, ...]:
    tags = _list(value, "tags", known, place)
    return tuple(_tag(tag, f"{place}/tags/{number}", depth + 1) for number, tag in enumerate(tags))


def _dispatch(value: Object, place: str, depth: int) -> Format:
    known = ("type", "rules", "loop", "excludes")
    rules = []
    for number, rule in enumerate(_list(value, "rules", known, place)):
        where = f"{place}/rules/{number}"
        if not isinstance(rule, list | tuple) or len(rule) != 2:
            raise InvalidConstraint("a rule is a pattern and a format", pointer=where)
        pattern = _text(rule[0], f"{where}/0")
        if not pattern:
            raise InvalidConstraint("is empty", pointer=f"{where}/0")
        rules.append((pattern, _read(rule[1], f"{where}/1", depth + 1)))
    _check_size([pattern for pattern, _ in rules], place)
    return Dispatched(tuple(rules), _boolean(value, "loop", known, place, default=True), _avoided(value, known, place))


def _refuse_unmatched(triggers: tuple[str, ...], tags: tuple[Tag, ...] | list[Tag], place: str) -> None:
    """Each trigger begins a tag, and each tag is begun by one trigger."""
    for number, tag in enumerate(tags):
        if not isinstance(tag.begin, str):
            raise InvalidConstraint(
                "begins with a token; triggers are found in text", pointer=f"{place}/{number}/begin"
            )
        if sum(tag.begin.startswith(trigger) for trigger in triggers) != 1:
            raise InvalidConstraint(
                f"{tag.begin!r} has to begin with exactly one of the triggers", pointer=f"{place}/{number}/begin"
            )
    around = place.rpartition("/")[0]
    for number, trigger in enumerate(triggers):
        where = f"{around}/triggers/{number}"
        if not trigger:
            raise InvalidConstraint("is empty", pointer=where)
        if not any(isinstance(tag.begin, str) and tag.begin.startswith(trigger) for tag in tags):
            raise InvalidConstraint(f"no tag begins with {trigger!r}", pointer=where)
    if not triggers:
        raise InvalidConstraint("has no triggers", pointer=f"{around}/triggers")
    _check_size(triggers, around)


_READERS: dict[str, Callable[[Object, str, int], Format]] = {
    "any_text": _any_text,
    "const_string": _const_string,
    "json_schema": _json_schema,
    "regex": _regex,
    "grammar": _grammar,
    "json_string": _json_string,
    "sequence": _sequence,
    "or": _or,
    "optional": _counted(0, 1),
    "star": _counted(0, None),
    "plus": _counted(1, None),
    "repeat": _repeat,
    "tag": _tag,
    "triggered_tags": _triggered_tags,
    "tags_with_separator": _tags_with_separator,
    "dispatch": _dispatch,
    "token": _token,
    "qwen_xml_parameter": _qwen_xml_parameter,
}
_BY_TOKEN = ("exclude_token", "any_tokens", "token_triggered_tags", "token_dispatch")

# --- fields -----------------------------------------------------------------------------------------------------------


def _field(value: Any, name: str, known: tuple[str, ...], place: str, default: Any = _REQUIRED) -> Any:
    if not isinstance(value, Mapping):
        raise InvalidConstraint(f"must be an object, not {type(value).__name__}", pointer=place)
    for key in value:
        if key not in known:
            raise InvalidConstraint(f"is unknown; there are {', '.join(known)}", pointer=f"{place}/{key}")
    if name in value:
        return value[name]
    if default is _REQUIRED:
        raise InvalidConstraint("is missing", pointer=f"{place}/{name}")
    return default


def _list(value: Any, name: str, known: tuple[str, ...], place: str) -> list[Any]:
    found = _field(value, name, known, place)
    if not isinstance(found, list):
        raise InvalidConstraint(f"must be a list, not {type(found).__name__}", pointer=f"{place}/{name}")
    return found


def _string(value: Any, name: str, known: tuple[str, ...], place: str) -> str:
    return _text(_field(value, name, known, place), f"{place}/{name}")


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise InvalidConstraint(f"must be a string, not {type(value).__name__}", pointer=place)
    return value


def _boolean(value: Any, name: str, known: tuple[str, ...], place: str, default: bool = False) -> bool:
    found = _field(value, name, known, place, default=default)
    if not isinstance(found, bool):
        raise InvalidConstraint(f"must be true or false, not {type(found).__name__}", pointer=f"{place}/{name}")
    return found


def _strings(value: Any, name: str, known: tuple[str, ...], place: str, default: Any = _REQUIRED) -> tuple[str, ...]:
    found = _field(value, name, known, place, default=default)
    if not isinstance(found, list | tuple):
        raise InvalidConstraint(f"must be a list of strings, not {type(found).__name__}", pointer=f"{place}/{name}")
    return tuple(_text(one, f"{place}/{name}/{number}") for number, one in enumerate(found))


def _avoided(value: Object, known: tuple[str, ...], place: str) -> tuple[str, ...]:
    found = _strings(value, "excludes", known, place, default=())
    if "" in found:
        raise InvalidConstraint("an empty string cannot be kept out", pointer=f"{place}/excludes")
    _check_size(found, f"{place}/excludes")
    return found


def _check_size(strings: list[str] | tuple[str, ...], place: str) -> None:
    if sum(map(len, strings)) > _MOST_CHARACTERS:
        raise LimitExceeded(
            f"strings of more than {_MOST_CHARACTERS:,} characters to find in a text", limit="characters", pointer=place
        )

"""In: the JSON body of a request; out: its one `Constraint`, or None, or a refusal that names the field. Compiles nothing.

The body is read raw, since vLLM's request models drop unknown fields without a word, and `guided_*` are unknown to them since
0.12. Whatever asks for a constraint in any of its spellings is read or refused here; nothing is passed by. What else a request says beside
its constraint is `enforcement`'s matter.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from guided.constraint import Constraint
from guided.errors import ConstraintError, InvalidConstraint, json_type
from guided.vllm_adapters.params import KEY
from server import request_options
from server.errors import RequestRefused, from_constraint_error
from server.near_names import did_you_mean, nearest
from server.observation import note_kind
from server.request_options import DEFAULTS, RequestOptions

Body = Mapping[str, Any]

REFERENCE = "guided_ref"  # a constraint that was compiled before, by its digest
VLLM_BACKENDS = ("xgrammar", "guidance", "outlines", "auto")  # see `handover`
BACKENDS = ("guided", *VLLM_BACKENDS)  # with this server's own
OTHER_FIELDS = (REFERENCE, "guided_whitespace_pattern", "guided_decoding_backend", "guided_options")
JSON_OPTIONS = ("whitespace", "whitespace_pattern", "additional_properties", "property_order", "escapes")
SWITCHES = ("json_object", "disable_any_whitespace", "disable_additional_properties")  # of structured_outputs
JSON_OBJECT = {"type": "object"}  # what response_format json_object promises


@dataclass(frozen=True, slots=True)
class Wanted:
    """A constraint, and the request field that it came in, as errors name it ("response_format.json_schema.schema").

    Attributes:
        places: of parts of the constraint that came in other fields: JSON pointer into it -> field.
        may_be_cut: stop strings end the answer wherever they occur in it; otherwise it is made without them.
    """

    field: str
    constraint: Constraint
    options: RequestOptions = DEFAULTS
    places: Mapping[str, str] = dataclasses.field(default_factory=dict)
    may_be_cut: bool = False

    def refused(self, error: ConstraintError) -> RequestRefused:
        """The library's refusal of the constraint, with the field and the place that it is about."""
        for pointer, place in self.places.items():
            if error.pointer is not None and f"{error.pointer}/".startswith(f"{pointer}/"):
                inside = error.pointer.removeprefix(pointer)
                own = error.copy()  # others who sent the same constraint wait for the same error
                own.pointer = None if inside == "" and error.column is not None else inside
                return from_constraint_error(own, place)
        return from_constraint_error(error, self.field)


def read_reference(body: Body) -> str | None:
    """The digest in `guided_ref`, which stands for the constraint that has it; None where the request has none."""
    digest = body.get(REFERENCE)
    if digest is not None and not isinstance(digest, str):
        raise _invalid(REFERENCE, f"must be a digest, not {json_type(digest)}")
    return digest


def read_spelling(body: Body, referred: Constraint | None = None) -> Wanted | None:
    """The one constraint of a request, in whichever of the spellings it came.

    Args:
        referred: what `guided_ref` stands for.

    Raises:
        RequestRefused: more than one constraint, or an unknown or malformed field.
    """
    _refuse_unknown_fields(body)
    wanted = [*_guided(body), *_structured_outputs(body), *_response_format(body), *_text_format(body)]
    if referred is not None:
        note_kind(referred.kind)
        wanted.append(Wanted(REFERENCE, referred))
    if len(wanted) > 1:
        fields = " and ".join(w.field for w in wanted)
        raise RequestRefused(
            f"only one constraint per request, got {fields}", "conflicting_constraints", wanted[1].field
        )
    return wanted[0] if wanted else None


# --- the spellings ----------------------------------------------------------------------------------------------------


def _guided(body: Body) -> Iterator[Wanted]:
    options = _json_options(body)
    for name, build in GUIDED_FIELDS.items():
        value = body.get(name)
        if value is None:
            continue
        if options and name != "guided_json":
            raise _invalid(next(iter(options.values())), f"applies to guided_json only, not to {name}")
        yield _build(name, build, value, *([_option_values(body)] if name == "guided_json" else []))


def _structured_outputs(body: Body) -> Iterator[Wanted]:
    outputs = body.get("structured_outputs")
    if outputs is None:
        return
    if not isinstance(outputs, Mapping):
        raise _invalid("structured_outputs", f"must be an object, not {json_type(outputs)}")
    given = [key for key, value in outputs.items() if _says_something(key, value)]
    options = dict(_OUTPUT_OPTIONS[key](outputs[key]) for key in given if key in _OUTPUT_OPTIONS)
    found = [key for key in given if key not in _OUTPUT_OPTIONS]
    if not found:
        raise _invalid("structured_outputs", f"names no constraint: give one of {', '.join(_OUTPUTS)}")
    for key in found:
        field = f"structured_outputs.{key}"
        if key not in _OUTPUTS:
            hint = did_you_mean(key, [*_OUTPUTS, *_OUTPUT_OPTIONS])
            raise RequestRefused(f"{field} is not enforced by this server{hint}", "not_enforced", field)
        takes_options = _OUTPUTS[key] in _WITH_OPTIONS
        if options and not takes_options:
            raise _invalid("structured_outputs", f"{', '.join(options)} applies to json and structural_tag only")
        yield _build(field, _OUTPUTS[key], outputs[key], *([options] if takes_options else []))


def _says_something(key: str, value: Any) -> bool:
    """Is this field of structured_outputs there? Its switches may be off."""
    field = f"structured_outputs.{key}"
    if key in SWITCHES and not (value is None or isinstance(value, bool)):
        raise _invalid(field, f"must be true or false, not {json_type(value)}")
    if key == "json_object" and value is False:
        raise _invalid(field, "must be true where it is given")
    return value is not None and value is not False


def _response_format(body: Body) -> Iterator[Wanted]:
    wanted = body.get("response_format")
    if wanted is None:
        return
    if not isinstance(wanted, Mapping):
        raise _invalid("response_format", f"must be an object, not {json_type(wanted)}")
    kind = wanted.get("type")
    if kind == "text":
        _refuse_unknown_keys("response_format", wanted, ("type",))
    elif kind == "json_object":
        _refuse_unknown_keys("response_format", wanted, ("type", "schema"))
        schema = wanted.get("schema")
        yield _build("response_format", _json, JSON_OBJECT if schema is None else schema, {})
    elif kind == "json_schema":
        _refuse_unknown_keys("response_format", wanted, ("type", "json_schema"))
        inner = wanted.get("json_schema")
        if not isinstance(inner, Mapping) or inner.get("schema") is None:
            raise _invalid("response_format.json_schema.schema", "is missing")
        _refuse_unknown_keys("response_format.json_schema", inner, ("name", "description", "schema", "strict"))
        yield _build("response_format.json_schema.schema", _json, inner["schema"], {})
    elif kind == "structural_tag":
        yield _build("response_format", _structural_tag, wanted, {})
    else:
        raise _invalid(
            "response_format.type", f"must be text, json_object, json_schema or structural_tag, not {kind!r}"
        )


def _text_format(body: Body) -> Iterator[Wanted]:
    """What /v1/responses has in place of response_format: the same kinds, the schema one level up."""
    text = body.get("text")
    wanted = text.get("format") if isinstance(text, Mapping) else None
    if not isinstance(wanted, Mapping):  # nothing, or for vLLM's models to refuse
        return
    kind = wanted.get("type")
    if kind in ("text", "json_object"):
        _refuse_unknown_keys("text.format", wanted, ("type",))
        if kind == "json_object":
            yield _build("text.format", _json, JSON_OBJECT, {})
    elif kind == "json_schema":
        _refuse_unknown_keys("text.format", wanted, ("type", "name", "description", "schema", "strict"))
        if wanted.get("schema") is None:
            raise _invalid("text.format.schema", "is missing")
        yield _build("text.format.schema", _json, wanted["schema"], {})
    else:
        raise _invalid("text.format.type", f"must be text, json_object or json_schema, not {kind!r}")


# --- building ---------------------------------------------------------------------------------------------------------


def _json(value: Any, options: Mapping[str, Any]) -> Constraint:
    return Constraint.json_schema(value, **options)


def _json_object(value: Any, options: Mapping[str, Any]) -> Constraint:
    return Constraint.json_schema(JSON_OBJECT, **options)


def _structural_tag(value: Any, options: Mapping[str, Any]) -> Constraint:
    return Constraint.structural_tag(value, **options)


_WITH_OPTIONS = (_json, _json_object, _structural_tag)


def _choice(value: Any) -> Constraint:
    if not isinstance(value, list):  # the library takes any iterable; of a JSON object it would take the keys
        raise InvalidConstraint(f"choices must be a list of strings, not {json_type(value)}")
    return Constraint.choice(value)


GUIDED_FIELDS: dict[str, Callable[..., Constraint]] = {
    "guided_json": _json,
    "guided_regex": Constraint.regex,
    "guided_choice": _choice,
    "guided_grammar": Constraint.grammar,
}
FIELDS = (*GUIDED_FIELDS, *OTHER_FIELDS)
_OUTPUTS: dict[str, Callable[..., Constraint]] = {  # of structured_outputs
    **{name.removeprefix("guided_"): build for name, build in GUIDED_FIELDS.items()},
    "json_object": _json_object,
    "structural_tag": _structural_tag,
}
_OUTPUT_OPTIONS: dict[str, Callable[[Any], tuple[str, Any]]] = {  # field of structured_outputs -> option of JSON
    "whitespace_pattern": lambda pattern: ("whitespace_pattern", pattern),
    "disable_any_whitespace": lambda _: ("whitespace", "compact"),
    "disable_additional_properties": lambda _: ("additional_properties", "declared"),
}


_KINDS: dict[Callable[..., Constraint], str] = {
    _json: "json",
    _json_object: "json",
    Constraint.regex: "regex",
    _choice: "choice",
    Constraint.grammar: "grammar",
    _structural_tag: "structural_tag",
}


def _build(field: str, build: Callable[..., Constraint], *arguments: Any) -> Wanted:
    note_kind(_KINDS[build])  # before it may be refused
    try:
        return Wanted(field, build(*arguments))
    except ConstraintError as error:
        raise from_constraint_error(error, field) from error


def _json_options(body: Body) -> dict[str, str]:
    """The options that the request gives for JSON, each with the field it came in.

    Raises:
        RequestRefused: guided_options is not an object, or has an option that does not exist.
    """
    fields = {}
    options = body.get("guided_options")
    if options is not None:
        if not isinstance(options, Mapping):
            raise _invalid("guided_options", f"must be an object, not {json_type(options)}")
        for key in options:
            if key in request_options.NAMES:
                continue
            if key not in JSON_OPTIONS:
                known = [*JSON_OPTIONS, *request_options.NAMES]
                raise _unknown(f"guided_options.{key}", known, nearest(key, known))
            fields[key] = f"guided_options.{key}"
    if body.get("guided_whitespace_pattern") is not None:
        fields["whitespace_pattern"] = "guided_whitespace_pattern"
    if fields and body.get("guided_json") is None:
        raise _invalid(next(iter(fields.values())), "needs guided_json beside it")
    return fields


def _option_values(body: Body) -> dict[str, Any]:
    given = body.get("guided_options") or {}
    values = {name: value for name, value in given.items() if name in JSON_OPTIONS}
    pattern = body.get("guided_whitespace_pattern")
    if pattern is not None:
        if "whitespace_pattern" in values:
            raise _invalid("guided_whitespace_pattern", "and guided_options.whitespace_pattern are the same option")
        values["whitespace_pattern"] = pattern
    return values


# --- refusals ---------------------------------------------------------------------------------------------------------


def _refuse_unknown_fields(body: Body) -> None:
    for name, value in body.items():
        if looks_guided(name) and name not in FIELDS:
            raise _unknown_field(name)
        if name == "guided_decoding_backend" and value is not None and value not in BACKENDS:
            raise _invalid(name, f"must be one of {', '.join(BACKENDS)}, not {str(value)[:80]!r}")
    extra = body.get("vllm_xargs")
    if isinstance(extra, Mapping) and KEY in extra:
        raise _invalid(f"vllm_xargs.{KEY}", "is reserved; send the constraint in one of the guided_* fields")
    _refuse_misplaced(body)


def looks_guided(name: str) -> bool:
    """Meant as one of our fields, whatever its case and separator: guidedJson, GUIDED_REGEX, guided-choice."""
    return name.lower().startswith("guided")


def _refuse_misplaced(body: Body) -> None:
    """A constraint within another field is nobody's, such as in `extra_body`, an argument of OpenAI's client that it never sends."""
    messages = body.get("messages")
    holders = {name: body.get(name) for name in ("extra_body", "chat_template_kwargs", "vllm_xargs")}
    holders |= {
        f"messages.{place}": message for place, message in enumerate(messages if isinstance(messages, list) else ())
    }
    for place, holder in holders.items():
        for name, value in holder.items() if isinstance(holder, Mapping) else ():
            if value is not None and (looks_guided(name) or name in ("structured_outputs", "response_format")):
                raise _invalid(f"{place}.{name[:80]}", f"has no effect there; put {name[:80]} beside model")


def _refuse_unknown_keys(field: str, value: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in value:
        if key not in known:
            raise _unknown(f"{field}.{key}", known, nearest(key, known))


def _invalid(field: str, problem: str) -> RequestRefused:
    return RequestRefused(f"{field} {problem}", "invalid_constraint", field)


def _unknown_field(name: str) -> RequestRefused:
    """What all the names have in common says nothing of which one is meant."""
    endings = {field.removeprefix("guided_"): field for field in FIELDS}
    near = nearest(name.lower().removeprefix("guided").strip("_-"), endings)
    return _unknown(name, FIELDS, near and endings[near])


def _unknown(field: str, known: Iterable[str], near: str | None) -> RequestRefused:
    meant = "; there" if near is None else f"; did you mean {near}? There"
    return _invalid(field, f"is unknown{meant} are {', '.join(known)}")

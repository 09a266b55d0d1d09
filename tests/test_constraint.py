"""What was asked for, as one value: equal wishes have equal digests, and what is no constraint is refused when it is built."""

from __future__ import annotations

import pytest

import guided
from guided.constraint import Constraint

# Names of indexes in every cache: a change here without a new FORMAT_VERSION makes old caches answer for new constraints.
DIGESTS = [
    (
        Constraint.json_schema({"type": "object"}),
        "2850fce1fd1c457700635598f11095961e3cc10b36d288e414bf747713121fa6",
    ),
    (Constraint.regex("a+"), "1bf9143c5e0af4fcd6772e3e611e272676a4a1b33e50765bb20e6809721bdfd0"),
    (Constraint.choice(["a", "b"]), "4f6c18b759318c74200c8c39a251234dcb4c2647459d3dcc7489e26fe99c54fd"),
    (
        Constraint.structural_tag({"type": "structural_tag", "format": {"type": "any_text"}}),
        "78e96e796126558b1784d53552dab2b90a8231fff976d71b5ddf2d0d11f40df3",
    ),
    (Constraint.grammar('start: "a"'), "d35d2f03438b49a7d52c9bb12132dc31f46d2f801e8b3b6a1240dc4612e22701"),
]


@pytest.mark.parametrize(("constraint", "digest"), DIGESTS, ids=lambda value: getattr(value, "kind", ""))
def test_digests_are_stable(constraint, digest):
    assert constraint.digest == digest
    assert Constraint.from_canonical(constraint.canonical_text) == constraint


def test_one_schema_in_several_spellings():
    schema = {"type": "object", "properties": {"é": {"const": 1.5}, "a": True}}
    spellings = [
        Constraint.json_schema(schema),
        Constraint.json_schema(' {"type":"object", "properties": {"\\u00e9": {"const": 1.50}, "a": true}}'),
        Constraint.json_schema(schema, whitespace="json_dumps", property_order="schema", whitespace_pattern=None),
    ]
    assert len({constraint.digest for constraint in spellings}) == 1


def test_the_order_of_properties_tells_constraints_apart():
    one, other = ({"properties": dict.fromkeys(names, True)} for names in ("ab", "ba"))
    assert Constraint.json_schema(one).digest != Constraint.json_schema(other).digest


@pytest.mark.parametrize(
    "build",
    [
        lambda: Constraint.json_schema('{"const": "\\ud800"}'),
        lambda: Constraint.json_schema({"properties": {"\udfff": True}}),
        lambda: Constraint.json_schema({}, whitespace_pattern="\ud800"),
        lambda: Constraint.regex("a\ud800"),
        lambda: Constraint.choice(["a", "\ud800"]),
        lambda: Constraint.grammar("start: '\ud800'"),
    ],
)
def test_lone_surrogates_are_refused(build):
    with pytest.raises(guided.InvalidConstraint, match="lone surrogate"):
        build()


@pytest.mark.parametrize("schema", [None, 5, [], "", "5", "NaN", '{"a": NaN}', b"\xff", {"a": {1}}])
def test_what_is_no_schema_is_refused(schema):
    with pytest.raises(guided.InvalidConstraint):
        Constraint.json_schema(schema)


def test_what_json_cannot_read_is_refused_with_its_place():
    with pytest.raises(guided.LimitExceeded, match="100,000 levels") as refusal:
        Constraint.json_schema('{"items": ' + "[" * 99_999)
    assert refusal.value.pointer == "/items" + "/0" * 99


@pytest.mark.parametrize("choices", [[], "abc", None, 5, ["a", 1], [["a"]], b"ab"])
def test_what_is_no_list_of_strings_is_refused(choices):
    with pytest.raises(guided.InvalidConstraint):
        Constraint.choice(choices)


def test_every_public_name_can_be_imported():
    assert [name for name in guided.__all__ if not hasattr(guided, name)] == []
    assert set(guided.__all__) == set(guided._HOMES)


def test_a_model_without_a_schema_is_refused():
    pydantic = pytest.importorskip("pydantic")

    class Callback(pydantic.BaseModel):
        call: object.__class__ = pydantic.Field(default=int)
        how: "typing.Callable[[int], int]"  # noqa: F821, UP037 - a name that is not defined

    for model in (pydantic.BaseModel, Callback):
        with pytest.raises(guided.InvalidConstraint, match="the model has no JSON Schema"):
            Constraint.json_schema(model)


def test_a_schema_as_text_says_nothing_twice():
    with pytest.raises(guided.InvalidConstraint, match="'type' is twice in one object"):
        Constraint.json_schema('{"type": "string", "properties": {"a": {}}, "type": "object"}')

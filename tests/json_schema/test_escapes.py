"""How characters are spelt in strings and names: escaped where that is left to the model, and never twice the same name."""

from __future__ import annotations

import pytest

WORDS = {
    "any string": {"type": "string"},
    "counted": {"type": "string", "maxLength": 9},
    "pattern": {"type": "string", "pattern": "^[a-zé\\n]*$"},
    "listed": {"enum": ["é", "a\n", "aé"]},
    "format": {"type": "string", "format": "iri-reference"},
    "name": {"type": "object", "properties": {"é": True}, "required": ["é"]},
    "distinct": {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 1},
}
TEXTS = {"name": ('{"é": 1}', '{"\\u00e9": 1}'), "distinct": ('["é"]', '["\\u00e9"]')}


@pytest.mark.parametrize("name", WORDS)
def test_escapes_are_a_choice_unless_only_those_needed_are_wanted(accept, name):
    plain, escaped = TEXTS.get(name, ('"é"', '"\\u00e9"'))
    free, needed = accept(WORDS[name]), accept(WORDS[name], escapes="needed")
    assert (free.text(plain), free.text(escaped)) == (True, True)
    assert (needed.text(plain), needed.text(escaped)) == (True, False)


@pytest.mark.parametrize("text", ['"\\n"', '"\\u0000"', '"\\""', '"\\\\"'])
def test_what_must_be_escaped_is(accept, text):
    assert accept({"type": "string"}, escapes="needed").text(text)


@pytest.mark.parametrize("options", [{}, {"escapes": "needed"}])
def test_an_unknown_name_is_no_known_one_however_it_is_spelt(accept, options):
    names = dict.fromkeys(("a", "ab", "abc", "x", ""), False)
    acceptor = accept({"properties": names}, additional_properties="allow", **options)
    known = ['{"a": 1}', '{"abc": 1}', '{"": 1}', '{"\\u0061": 1}', '{"a\\u0062c": 1}']
    assert [text for text in known if acceptor.text(text)] == []
    others = [
        "{}",
        '{"b": 1}',
        '{"abcd": 1}',
        '{"ac": 1}',
        '{"a/": 1}',
        '{"a\\/": 1}',
        '{"aé": 1}',
        '{"a\\n": 1}',
        '{"xy": 1}',
    ]
    assert [text for text in others if not acceptor.text(text)] == []


def test_names_beyond_ascii_are_told_apart_in_both_spellings(accept):
    acceptor = accept({"properties": {"é": False, "a/b": False}}, additional_properties="allow")
    known = ['{"é": 1}', '{"\\u00e9": 1}', '{"\\u00E9": 1}', '{"a/b": 1}', '{"a\\/b": 1}']
    assert [text for text in known if acceptor.text(text)] == []
    assert acceptor.text('{"éa": 1}')
    assert acceptor.text('{"\\u00e9a": 1}')

"""Requests that name one of vLLM's own backends: what vLLM gets to see, and what is refused since it would not read it."""

from __future__ import annotations

import json

import pytest

from server.errors import RequestRefused
from server.guided_fields import read_spelling
from server.handover import HandedOver, hand_over, named_backend

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
TEXT = json.dumps(SCHEMA)
FORMAT = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}


def handed(body: dict) -> HandedOver:
    body = {"guided_decoding_backend": "guidance", "n": 2, **body}
    wanted = read_spelling(body)
    backend = named_backend(body)
    assert wanted is not None and backend is not None
    return hand_over(body, wanted, backend)


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        ({"guided_json": SCHEMA}, {"json": TEXT}),
        ({"guided_json": '{"type": "integer"}'}, {"json": '{"type": "integer"}'}),
        ({"guided_json": True}, {"json": "true"}),
        ({"guided_regex": "a+"}, {"regex": "a+"}),
        ({"guided_choice": ["b", "a"]}, {"choice": ["b", "a"]}),
        ({"guided_grammar": 'root ::= "a"'}, {"grammar": 'root ::= "a"'}),
        ({"structured_outputs": {"regex": "a+", "json": None}}, {"regex": "a+"}),
        ({"response_format": {"type": "json_object"}}, {"json": '{"type": "object"}'}),
        ({"response_format": {"type": "json_object", "schema": SCHEMA}}, {"json": TEXT}),
        ({"response_format": FORMAT}, {"json": TEXT}),
        ({"text": {"format": {"type": "json_object"}}}, {"json": '{"type": "object"}'}),
    ],
    ids=str,
)
def test_vllm_reads_its_own_spelling(body, outputs):
    pending = handed(body)
    assert pending.in_vllms_words() == outputs
    assert (pending.backend, pending.outputs, pending.taken) == ("guidance", None, False)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"guided_json": SCHEMA, "guided_whitespace_pattern": " ?"}, "guided_json"),
        ({"guided_json": SCHEMA, "guided_options": {"fit_budget": False}}, "guided_options"),
        ({"structured_outputs": {"json": SCHEMA, "whitespace_pattern": " "}}, "structured_outputs.json"),
        ({"structured_outputs": {"json": SCHEMA, "disable_any_whitespace": True}}, "structured_outputs.json"),
        ({"guided_regex": "a", "use_beam_search": True}, "use_beam_search"),
        ({"guided_regex": "a", "ignore_eos": True}, "ignore_eos"),
        ({"guided_regex": "a", "repetition_detection": {"max_pattern_size": 3}}, "repetition_detection"),
    ],
    ids=str,
)
def test_what_vllms_backends_do_not_read_is_refused(body, param):
    with pytest.raises(RequestRefused) as raised:
        handed(body)
    assert (raised.value.code, raised.value.param) == ("not_enforced", param)


@pytest.mark.parametrize("name", [None, "guided"])
def test_this_servers_own(name):
    assert named_backend({"guided_decoding_backend": name}) is None

"""A constraint survives the way through `extra_args`, as vLLM encodes it."""

from __future__ import annotations

import pytest
from vllm import SamplingParams
from vllm.v1.serial_utils import MsgpackDecoder, MsgpackEncoder

from guided.constraint import Constraint
from guided.vllm_adapters.params import KEY, from_extra_args, to_extra_args

CONSTRAINTS = [
    Constraint.regex(r"a|\d{3}"),
    Constraint.choice(["ja", "nein", "größer 🙂"]),
    Constraint.json_schema({"type": "object", "properties": {"b": {}, "a": {}}}),
    Constraint.grammar('start: "x"'),
]


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=lambda c: c.kind)
def test_round_trip_through_the_engines_encoding(constraint):
    params = SamplingParams(extra_args=to_extra_args({"other": 1}, constraint, "req-1"))
    encoded = MsgpackEncoder().encode(params)
    decoded = MsgpackDecoder(SamplingParams).decode(encoded)
    guided = from_extra_args(decoded.extra_args)
    assert guided is not None
    assert (guided.constraint, guided.digest, guided.request_id) == (constraint, constraint.digest, "req-1")
    assert decoded.extra_args["other"] == 1


def test_plain_requests_carry_nothing():
    assert from_extra_args(None) is None
    assert from_extra_args({"other": 1}) is None


@pytest.mark.parametrize("foreign", ["x", 1, {}, {"format": 999, "digest": "", "constraint": "", "request_id": ""}])
def test_foreign_entry_is_refused(foreign):
    with pytest.raises(ValueError, match="format version"):
        from_extra_args({KEY: foreign})

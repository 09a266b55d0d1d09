"""Random token walks over sampled schemas: everything that comes to an end must validate.

    python -m tests.conformance.soundness --data FILE --tokenizer DIR [--schemas 200] [--walks 50] [--seed 0]

Each walk draws tokens uniformly from the mask, at most `--tokens` of them, and then takes a byte walk along the shortest way that
it can find to the end; the text is validated by `jsonschema` under the declared draft, formats asserted. Multiples are told in decimals, as
they are written: `jsonschema` divides floats, by which 0.07 is no multiple of 0.01.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np

import guided
from guided.compiler import warm_up
from tests.conformance.maskbench import read

CLOSERS = b'"]},:0123456789truefalsn -'  # bytes that bring a document to its end, tried in this order


def walk(index, vocabulary, rng: random.Random, most: int) -> str | None:
    """One document, or None where the walk did not end."""
    state, data = index.start, b""
    for _ in range(most):
        if index.is_accepting(state) and rng.random() < 0.3:
            break
        allowed = np.flatnonzero(np.unpackbits(index.mask(state).view(np.uint8), bitorder="little"))
        if not len(allowed):
            assert index.is_accepting(state), "no token and no end"
            break
        token = int(allowed[rng.randrange(len(allowed))])
        data += vocabulary.bytes_of(token)
        state = index.advance(state, token)
    return finish(index, state, data)


def finish(index, state: int, data: bytes, most: int = 3000) -> str | None:
    """Bytes that tend to close what is open, until the document is complete."""
    dfa = index._dfa
    for _ in range(most):
        if dfa.is_accepting(state):
            return data.decode()
        for byte in (*CLOSERS, *range(256)):
            following = dfa.step(state, byte)
            if following >= 0:
                data, state = data + bytes([byte]), following
                break
        else:
            raise AssertionError(f"dead end after {data[-80:]!r}")
    return None


class Written(float):
    """A float that knows its digits."""

    def __init__(self, text: str) -> None:
        self.exact = Fraction(text)


def multiple_of(validator: Any, step: float, instance: Any, schema: Any) -> Iterator[jsonschema.ValidationError]:
    """The keyword in exact arithmetic."""
    if validator.is_type(instance, "number"):
        value = instance.exact if isinstance(instance, Written) else Fraction(instance)
        if value % Fraction(str(step)):
            yield jsonschema.ValidationError(f"{instance!r} is not a multiple of {step}")


def validator_of(schema: Any) -> Any:
    """The validator of the declared draft, with formats."""
    cls = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    exact = jsonschema.validators.extend(cls, {"multipleOf": multiple_of})
    return exact(schema, format_checker=cls.FORMAT_CHECKER)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--schemas", type=int, default=200)
    parser.add_argument("--walks", type=int, default=50)
    parser.add_argument("--tokens", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--properties", choices=("declared", "allow"), default="declared")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    vocabulary = guided.Vocabulary.from_pretrained(str(arguments.tokenizer))
    warm_up(vocabulary)
    rng = random.Random(arguments.seed)
    cases = [case for case in read(arguments.data) if arguments.only in case["name"]]
    cases = rng.sample(cases, min(arguments.schemas, len(cases)))
    counts = {"valid": 0, "invalid": 0, "unfinished": 0, "limits": 0, "refused": 0}
    for case in cases:
        constraint = guided.Constraint.json_schema(case["schema"], additional_properties=arguments.properties)
        try:
            index = guided.compile(constraint, vocabulary, guided.Limits(seconds=30))
        except guided.ConstraintError as error:
            counts["refused"] += 1
            print("refused", case["name"], error, flush=True)
            continue
        validator = validator_of(case["schema"])
        for _ in range(arguments.walks):
            try:
                text = walk(index, vocabulary, rng, arguments.tokens)
            except guided.LimitExceeded as error:
                counts["limits"] += 1
                print("limit", case["name"], error, flush=True)
                break
            if text is None:
                counts["unfinished"] += 1
                continue
            problem = next(validator.iter_errors(json.loads(text, parse_float=Written)), None)
            counts["valid" if problem is None else "invalid"] += 1
            if problem is not None:
                print(
                    "INVALID",
                    case["name"],
                    text[:300],
                    "|",
                    problem.message[:200],
                    list(problem.absolute_path),
                    flush=True,
                )
                break
    print(counts)
    return int(bool(counts["invalid"]))


if __name__ == "__main__":
    sys.exit(main())

"""A name and a size go in, a text of a benchmark grammar comes out, the same in every run; knows no grammar engine."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

WORDS = [
    "alpha",
    "beta",
    "gamma",
    "delta",
    "order",
    "price",
    "total",
    "user",
    "city",
    "status",
    "owner",
    "item",
    "count",
    "name",
    "group",
    "value",
]


def text_of(name: str, pieces: int) -> str:
    """A text of about `pieces` statements, records, moves or terms."""
    return _WRITERS[name](random.Random(name), pieces)


def _json(rng: random.Random, pieces: int) -> str:
    rows = [
        {
            "id": number,
            "name": f"{rng.choice(WORDS)} {rng.choice(WORDS)}",
            "price": round(rng.random() * 1e3, 2),
            "tags": rng.sample(WORDS, 3),
            "nested": {"ok": rng.random() < 0.5, "none": None, "text": 'a "quoted" \\ \u00e9'},
        }
        for number in range(pieces)
    ]
    return json.dumps(rows, indent=2, ensure_ascii=False)


def _arithmetic(rng: random.Random, pieces: int) -> str:
    def term(depth: int) -> str:
        if depth and rng.random() < 0.5:
            return f"({term(depth - 1)} {rng.choice('+-*/^')} {term(depth - 1)})"
        name = rng.choice(WORDS)
        return rng.choice([name, str(rng.randrange(10_000)), f"{rng.random():.3f}", f"-{name}", f"{name}({name}, 2)"])

    return "".join(f"{term(3)} {rng.choice('+-*/^')} " for _ in range(pieces)) + "1"


def _sql(rng: random.Random, pieces: int) -> str:
    def condition(depth: int) -> str:
        left = f"t{rng.randrange(9)}.{rng.choice(WORDS)}"
        simple = [
            f"{left} >= {rng.randrange(1000)}",
            f"{left} LIKE '%{rng.choice(WORDS)}%'",
            f"{left} IN (1, 2, {rng.randrange(99)})",
            f"{left} BETWEEN 1 AND {rng.randrange(99)}",
            f"{left} IS NOT NULL",
        ]
        if depth and rng.random() < 0.5:
            return f"({condition(depth - 1)} {rng.choice(['AND', 'OR'])} NOT {condition(depth - 1)})"
        return rng.choice(simple)

    columns = ", ".join(f"SUM(t{n}.{rng.choice(WORDS)} * {n} + 1) AS c{n}" for n in range(pieces // 4))
    joins = "".join(f"\nLEFT JOIN {rng.choice(WORDS)} AS t{n} ON t{n}.id = t0.id" for n in range(pieces // 6))
    conditions = " AND\n  ".join(condition(2) for _ in range(pieces))
    tail = "\nGROUP BY t0.id HAVING COUNT(*) > 1 ORDER BY c1 DESC, c2 LIMIT 10 OFFSET 20;"
    return f"SELECT DISTINCT {columns}\nFROM orders AS t0{joins}\nWHERE {conditions}{tail}"


def _graphql(rng: random.Random, pieces: int) -> str:
    def field(depth: int) -> str:
        pad = "  " * (4 - depth)
        inner = "\n".join(field(depth - 1) for _ in range(2)) if depth else ""
        given = f'({rng.choice(WORDS)}: $v, first: {rng.randrange(50)}, filter: {{ name: "{rng.choice(WORDS)}" }})'
        head = pad + rng.choice(
            [rng.choice(WORDS), f"{rng.choice(WORDS)}: {rng.choice(WORDS)}", rng.choice(WORDS) + given]
        )
        return f"{head} {{\n{inner}\n{pad}}}" if inner else head + rng.choice(["", " @include(if: $b)"])

    queries = "\n".join(field(2) for _ in range(pieces))
    head, tail = "query Get($v: ID!, $b: Boolean = true, $l: [Int!])", "fragment More on Thing { id }"
    return f"{head} {{\n{queries}\n  ... on Thing {{ id ...More }}\n}}\n{tail}\n"


def _filter(rng: random.Random, pieces: int) -> str:
    def term(depth: int) -> str:
        if depth and rng.random() < 0.4:
            return f"({term(depth - 1)} {rng.choice(['AND', 'OR'])} {term(depth - 1)})"
        return f'{rng.choice(["", "NOT "])}{rng.choice(["name", "status", "owner"])}:"{rng.choice(WORDS)} {rng.choice(WORDS)}"'

    return " AND ".join(term(3) for _ in range(pieces))


def _pgn(rng: random.Random, pieces: int) -> str:
    def san() -> str:
        square = rng.choice("abcdefgh") + rng.choice("12345678")
        return rng.choice([square, f"N{square}", f"Bx{square}", f"Rd{square}+", "O-O", "exd5", f"Q{square}!?"])

    games = []
    for number in range(max(1, pieces // 40)):
        tags = f'[Event "Game {number}"]\n[White "{rng.choice(WORDS)}"]\n[Result "1-0"]\n\n'
        moves = " ".join(f"{n}. {san()} {san()}" + (" {good}" if n % 9 == 0 else "") for n in range(1, 41))
        games.append(f"{tags}{moves} 1-0\n\n")
    return "".join(games)


def _lisp(rng: random.Random, pieces: int) -> str:
    def form(depth: int) -> str:
        if depth and rng.random() < 0.6:
            return f"({rng.choice(WORDS)} {' '.join(form(depth - 1) for _ in range(3))})"
        return rng.choice(
            [
                rng.choice(WORDS),
                str(rng.randrange(1000)),
                f'"{rng.choice(WORDS)} \\n"',
                f"'{rng.choice(WORDS)}",
                "#(1 2 x)",
            ]
        )

    return "".join(f"(define ({rng.choice(WORDS)} x y) ; comment\n  {form(3)})\n" for _ in range(pieces))


def _c_like(rng: random.Random, pieces: int) -> str:
    def expression(depth: int) -> str:
        if depth and rng.random() < 0.5:
            return f"({expression(depth - 1)} {rng.choice(['+', '*', '<<', '==', '&&', '|', '<='])} {expression(depth - 1)})"
        name = rng.choice(WORDS)
        return rng.choice(
            [name, str(rng.randrange(999)), f"{name}[{name} + 1]", f"{name}({name}, 3)", f"-{name}", f"a.{name}"]
        )

    def statement(depth: int) -> str:
        pad = "  " * (3 - depth)
        simple = [
            f"int {rng.choice(WORDS)} = {expression(2)};",
            f"{rng.choice(WORDS)} = {expression(2)};",
            f"return {expression(1)};",
            f"op{rng.randrange(80)}({expression(1)}, {expression(0)});",
        ]
        if not depth or rng.random() < 0.5:
            return pad + rng.choice(simple)
        body = "\n".join(statement(depth - 1) for _ in range(2))
        head = rng.choice(
            [f"if ({expression(1)})", f"while ({expression(1)})", f"for (i = 0; i < {expression(0)}; i = i + 1)"]
        )
        return f"{pad}{head} {{\n{body}\n{pad}}}"

    return "\n".join(statement(2) for _ in range(pieces)) + "\n"


_WRITERS: dict[str, Callable[[random.Random, int], str]] = {
    "json": _json,
    "arithmetic": _arithmetic,
    "sql": _sql,
    "graphql": _graphql,
    "filter": _filter,
    "pgn": _pgn,
    "lisp": _lisp,
    "c_like": _c_like,
}

NAMES = list(_WRITERS)

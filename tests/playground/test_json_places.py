"""The page's reader of JSON against Python's: the same texts are JSON, and every pointer leads to its value."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

READ = """
const [texts, done] = arguments;
import("/playground/json_places.js").then(({ placesOf, NotJson }) => done(texts.map((text) => {
  try {
    return Object.fromEntries([...placesOf(text)].map(([pointer, { value }]) => [pointer, text.slice(...value)]));
  } catch (error) {
    return error instanceof NotJson && error.at >= 0 && error.at <= text.length ? "not JSON" : String(error);
  }
})));
"""
STRINGS = ["", "a", "a/b", "~", "~1", 'q"', "\\", "é", "😀", "\n", "\u2028", "0"]


def value(source: random.Random, depth: int = 0) -> Any:
    match source.randrange(8 if depth < 4 else 5):
        case 0:
            return source.choice([None, True, False])
        case 1:
            return source.randrange(-(10**18), 10**18)
        case 2:
            return source.uniform(-1e9, 1e9) * 10 ** source.randrange(-30, 30)
        case 3 | 4:
            return source.choice(STRINGS)
        case 5:
            return [value(source, depth + 1) for _ in range(source.randrange(5))]
    return {source.choice(STRINGS) + str(n): value(source, depth + 1) for n in range(source.randrange(5))}


def text(source: random.Random) -> str:
    indent = source.choice([None, 1, 4, "\t"])
    return json.dumps(value(source), indent=indent, ensure_ascii=source.random() < 0.5) + source.choice(["", " ", "\n"])


def pointers(found: Any, pointer: str = "") -> Iterator[tuple[str, Any]]:
    yield pointer, found
    members = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    for name, inner in members:
        yield from pointers(inner, f"{pointer}/{str(name).replace('~', '~0').replace('/', '~1')}")


@pytest.fixture(scope="module")
def texts() -> list[str]:
    source = random.Random(8)
    return [text(source) for _ in range(300)]


def test_every_pointer_leads_to_its_value(page, texts):
    for written, places in zip(texts, page.browser.execute_async_script(READ, texts), strict=True):
        assert {at: json.loads(part) for at, part in places.items()} == dict(pointers(json.loads(written)))


def test_what_is_no_json_is_told(page, texts):
    source = random.Random(9)
    broken = []
    for written in texts:
        at = source.randrange(len(written))
        broken.append(
            written[:at] + source.choice(["", ",", "]", '"', "\\", "x", "01", "-", "\x01"]) + written[at + 1 :]
        )
    told = page.browser.execute_async_script(READ, broken)
    for written, places in zip(broken, told, strict=True):
        assert (places == "not JSON") is not is_json(written), (written, places)
    assert 50 < sum(places == "not JSON" for places in told) < 300


def is_json(written: str) -> bool:
    try:
        json.loads(written)
    except ValueError:
        return False
    return True

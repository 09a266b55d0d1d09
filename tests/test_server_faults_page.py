"""The page of faults names tests that exist."""

from __future__ import annotations

import re

from tests.live_server import ROOT


def test_every_test_that_the_page_names_exists():
    text = (ROOT / "docs" / "server-faults.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| kind")]
    assert len(rows) > 50
    names = set(re.findall(r"\btest_\w+(?!\.py)\b", text))
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert not {
        name for name in names if f"def {name}(" not in sources and not list((ROOT / "tests").rglob(f"{name}.py"))
    }
    for file, name in re.findall(r"`(\w+/test_\w+\.py)::(test_\w+)", text):
        path = ROOT / "tests" / file
        assert path.exists(), file
        assert f"def {name}(" in path.read_text(encoding="utf-8"), f"{file}::{name}"
    for file in re.findall(r"`(\w+/test_\w+\.py)`", text):
        assert (ROOT / "tests" / file).exists(), file

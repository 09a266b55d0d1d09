"""The JSON-Schema-Test-Suite against the front end: every test is decided right, refused by name, or wrong; a table per keyword.

    python -m tests.conformance.json_schema_suite [--suite DIR] [--only WORD] [--markdown FILE]

Instances are written by `json.dumps` and run byte by byte through the automaton (`property_order="any"`,
`additional_properties="allow"`). Formats are asserted here, so the tests that call them annotations are left out.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guided.automaton.lazy_dfa import LazyDfa
from guided.errors import ConstraintError
from guided.json_schema import build_network
from guided.limits import Budget, Limits

SUITE = Path(__file__).parents[3] / "shared" / "json-schema-test-suite"
DRAFTS = {
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
    "draft7": "http://json-schema.org/draft-07/schema#",
}
OPTIONS = {"property_order": "any", "additional_properties": "allow"}
# What formats are when they are not asserted; content*, which 2019-09 made annotations and Draft 7 leaves to the implementation.
ANNOTATION_ONLY = ("format.json", "optional/format-assertion.json", "optional/content.json")
# Rejected though valid, as documented: formats that are narrowed, classes that Python's `re` reads differently.
NARROWED = re.compile(r"optional/(format/(idn-|hostname|ecmascript-regex)|ecmascript-regex)")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One test: "pass", "refused", "narrowed" (valid but rejected, as documented), "wrong" or "crash", with the reason."""

    draft: str
    file: str
    group: str
    test: str
    result: str
    detail: str


def outcomes(suite: Path, only: str = "") -> Iterator[Outcome]:
    """Runs the required tests, optional ones and formats of each draft."""
    for draft, declared in DRAFTS.items():
        folder = suite / "tests" / draft
        for path in sorted(folder.rglob("*.json")):
            file = str(path.relative_to(folder))
            if file in ANNOTATION_ONLY or only not in f"{draft}/{file}":
                continue
            for group in json.loads(path.read_text()):
                yield from _group(draft, file, group, declared)


def _group(draft: str, file: str, group: dict[str, Any], declared: str) -> Iterator[Outcome]:
    schema = group["schema"]
    if isinstance(schema, dict):
        schema = {"$schema": declared, **schema}

    def outcome(test: dict[str, Any], result: str, detail: str = "") -> Outcome:
        return Outcome(draft, file, group["description"], test["description"], result, detail)

    try:
        machine = LazyDfa(build_network(schema, OPTIONS, Budget(Limits(seconds=20))), Budget(Limits(seconds=600)))
    except ConstraintError as error:
        unsatisfiable = error.code == "unsatisfiable"
        for test in group["tests"]:
            yield outcome(test, "pass" if unsatisfiable and not test["valid"] else "refused", error.describe())
        return
    for test in group["tests"]:
        try:
            accepted = machine.matches(json.dumps(test["data"]).encode())
        except ConstraintError as error:
            yield outcome(test, "refused", error.describe())
            continue
        narrowed = "narrowed" if test["valid"] and NARROWED.match(file) else "wrong"
        yield outcome(test, "pass" if accepted == test["valid"] else narrowed, f"accepted={accepted}")


def table(found: list[Outcome]) -> str:
    """Markdown: for each file of each draft, the number of tests passed, refused and wrong."""
    lines = ["| draft | tests | passed | refused | narrowed | wrong |", "|---|---:|---:|---:|---:|---:|"]
    for draft in DRAFTS:
        for file in sorted({one.file for one in found if one.draft == draft}):
            counts = Counter(one.result for one in found if (one.draft, one.file) == (draft, file))
            name = f"{draft} {file.removesuffix('.json')}"
            lines.append(
                f"| {name} | {counts.total()} | {counts['pass']} | {counts['refused']} | {counts['narrowed']} | {counts['wrong']} |"
            )
    counts = Counter(one.result for one in found)
    lines.append(
        f"| all | {counts.total()} | {counts['pass']} | {counts['refused']} | {counts['narrowed']} | {counts['wrong']} |"
    )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", type=Path, default=SUITE)
    parser.add_argument("--only", default="", help="a part of draft/file")
    parser.add_argument("--markdown", type=Path, help="write the table there")
    parser.add_argument("--quiet", action="store_true", help="print the table only")
    arguments = parser.parse_args()
    found = list(outcomes(arguments.suite, arguments.only))
    if not arguments.quiet:
        for one in found:
            if one.result != "pass":
                print(f"{one.result}: {one.draft}/{one.file} | {one.group} | {one.test} | {one.detail}")
    print(table(found))
    if arguments.markdown:
        arguments.markdown.write_text(table(found) + "\n")
    return int(any(one.result == "wrong" for one in found))


if __name__ == "__main__":
    sys.exit(main())

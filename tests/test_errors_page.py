"""docs/errors.md lists every code that the server can send, each in the table of its gateway."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from guided.errors import ConstraintError
from server.allowance import CODE as RATE_LIMIT
from server.status_errors import CODES, VALIDATED
from tests.live_server import ROOT

SERVER = ROOT / "server"


def raised(path: Path) -> Iterator[str]:
    """The codes that a file names: the second argument of RequestRefused, and what is assigned to a name of `code`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        found: ast.AST | None = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "RequestRefused":
            by_name = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
            found = node.args[1] if len(node.args) > 1 else (by_name or [None])[0]
        elif isinstance(node, ast.Assign) and any("code" in ast.unparse(target).lower() for target in node.targets):
            found = node.value
        if found is not None:
            yield from literals(found)


def literals(node: ast.AST) -> Iterator[str]:
    """The words that an expression may come to; what is asked of a mapping is none of them."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch("[a-z_]+", node.value):
        yield node.value
    elif not isinstance(node, ast.Call | ast.Subscript | ast.Compare):
        for child in ast.iter_child_nodes(node):
            yield from literals(child)


def codes_of_constraints(kind: type[ConstraintError] = ConstraintError) -> set[str]:
    return {kind.code}.union(*(codes_of_constraints(below) for below in kind.__subclasses__()))


def tables() -> list[set[str]]:
    """The codes of each table of errors, in their order on the page."""
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| `code` \| status \| \|\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    return [
        {code for row in rows.splitlines() for code in re.findall("`([a-z_]+)`", row.split("|")[1])} for rows in found
    ]


def test_every_code_of_the_server_is_in_its_table():
    sources = [path for path in SERVER.rglob("*.py") if "bedrock" not in path.parts]
    codes = {code for path in sources for code in raised(path)} | codes_of_constraints()
    codes |= {RATE_LIMIT, VALIDATED, *CODES.values(), "internal_error"}
    assert len(codes) > 30
    assert not codes - tables()[0]


def test_every_code_of_the_gateway_on_bedrock_is_in_one_of_the_tables():
    codes = {code for path in (SERVER / "bedrock").rglob("*.py") for code in raised(path)}
    assert {"constraint_not_met", "timeout"} <= codes
    assert not codes - set().union(*tables())


def test_the_table_lists_no_code_that_nobody_sends():
    sources = "\n".join(
        path.read_text(encoding="utf-8") for path in [*SERVER.rglob("*.py"), ROOT / "guided" / "errors.py"]
    )
    assert not {code for table in tables() for code in table if f'"{code}"' not in sources}

"""Imports point one way: every stage knows the stages before it, none after it, and the library knows neither HTTP nor vLLM."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from guided.cache.address import _COMPILING

ROOT = Path(__file__).resolve().parent.parent
BASE = {"constraint", "errors", "limits"}
AUTOMATA = BASE | {"automaton"}
INDEXING = AUTOMATA | {"vocabulary"}

# package or module of guided/ -> what else of guided/ it may import
ARROWS: dict[str, set[str]] = {
    "errors": set(),
    "kernel_cache": set(),
    "limits": {"errors"},
    "constraint": {"errors"},
    "constraint_files": {"constraint", "errors"},
    "automaton": BASE,
    "vocabulary": BASE,
    "regex": AUTOMATA,
    "choice": AUTOMATA,
    "json_schema": AUTOMATA | {"regex"},
    "grammar": AUTOMATA | {"regex", "json_schema"},
    "structural_tag": AUTOMATA | {"regex", "json_schema", "grammar"},
    "index": INDEXING,
    "cache": INDEXING | {"index"},
    "explain": AUTOMATA,
    "plot": AUTOMATA | {"explain"},
    "compiler": INDEXING
    | {"regex", "choice", "json_schema", "grammar", "structural_tag", "index", "cache", "kernel_cache"},
    "estimate": INDEXING | {"json_schema", "index", "compiler"},
    "workers": INDEXING | {"json_schema", "index", "cache", "compiler", "estimate", "explain", "plot"},
    "masking": INDEXING | {"index"},
    "vllm_adapters": INDEXING | {"index", "cache", "compiler", "masking"},
}
FACADES = {"__init__", "cli", "__main__"}  # may know everything
SERVER_MAY_IMPORT = {
    "guided",
    "guided.cache",
    "guided.constraint_files",
    "guided.index.file",
    "guided.index.token_index",
    "guided.workers",
    "guided.workers.jobs",
    "guided.workers.messages",
    "guided.workers.nursery",
    "guided.constraint",
    "guided.errors",
    "guided.limits",
    "guided.compiler",
    "guided.vocabulary",
    "guided.vllm_adapters.mask_times",
    "guided.vllm_adapters.params",
    "guided.vllm_adapters.reports",
    "guided.vllm_adapters.select",
}
FOREIGN = {"vllm", "fastapi", "starlette", "pydantic_settings", "server", "tests", "loadtests"}


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Every module that a file imports, with the line; `from a import b` counts as a and as a.b where that is a module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield (inner if is_module(inner) else node.module), node.lineno


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or path.is_dir()


def files(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def part_of(path: Path) -> str:
    """The stage that a file of guided/ belongs to."""
    return path.relative_to(ROOT / "guided").parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", files("guided"), ids=lambda p: str(p.relative_to(ROOT)))
def test_arrows_of_the_library(path):
    part = part_of(path)
    if part in FACADES:
        return
    assert part in ARROWS, f"guided/{part} is in no arrow: add it to the design and here"
    for name, line in imports(path):
        package, _, rest = name.partition(".")
        if package == "guided":
            assert rest, f"{path}:{line} imports the facade of its own package"
            stage = rest.split(".")[0]
            assert stage == part or stage in ARROWS[part], f"{path}:{line}: {part} may not import {stage}"
        if part != "vllm_adapters":
            assert package not in FOREIGN, f"{path}:{line}: guided may not import {package}"
        assert package not in {"server", "tests", "loadtests", "fastapi"}, f"{path}:{line}"


@pytest.mark.parametrize("path", files("server"), ids=lambda p: str(p.relative_to(ROOT)))
def test_arrows_of_the_server(path):
    for name, line in imports(path):
        if name.split(".")[0] == "guided":
            assert name in SERVER_MAY_IMPORT, f"{path}:{line}: server may not import {name}"
        assert name.split(".")[0] not in {"tests", "loadtests"}, f"{path}:{line}"


def test_an_index_is_of_the_code_that_it_came_out_of():
    """What `guided.compiler` imports, directly or not, is what the generation of an index is a digest of."""
    seen: set[Path] = set()
    waiting = [ROOT / "guided" / "compiler.py"]
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            waiting.extend(file_of(name) for name, _ in imports(path) if name.startswith("guided."))
    parts = {path.relative_to(ROOT / "guided").parts[0] for path in seen}
    assert parts - {"kernel_cache.py"} == set(_COMPILING)  # where kernels are kept shapes no index


def file_of(module: str) -> Path:
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@pytest.mark.parametrize("path", [*files("guided"), *files("server")], ids=lambda p: str(p.relative_to(ROOT)))
def test_every_module_says_what_it_is(path):
    text = path.read_text(encoding="utf-8")
    doc = ast.get_docstring(ast.parse(text)) or ""
    assert "." in doc or not text.strip(), f"{path} does not say what goes in, what comes out and what it does not know"

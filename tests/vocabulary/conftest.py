"""The real tokenizers, as vocabularies and as their own libraries load them. Absent ones skip their tests, by name."""

import importlib.util
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from guided.vocabulary import Vocabulary

CACHE = Path(os.environ.get("GUIDED_CACHE_DIR") or Path.home() / ".cache" / "guided").expanduser()
FOLDERS = {
    "llama3": (CACHE / "tokenizers" / "llama3", "scripts/fetch_tokenizers.py"),
    "qwen3": (CACHE / "tokenizers" / "qwen3", "scripts/fetch_tokenizers.py"),
    "gemma3": (CACHE / "tokenizers" / "gemma3", "scripts/fetch_tokenizers.py"),
    "smollm2": (CACHE / "models" / "SmolLM2-135M-Instruct", "make setup"),
}
MISTRAL = {
    "tekken": "tekken_240911.json",
    "spm_v1": "tokenizer.model.v1",
    "spm_v3": "mistral_instruct_tokenizer_240323.model.v3",
}


@dataclass(frozen=True)
class Real:
    """One real tokenizer: where it lies and what we make of it."""

    name: str
    path: Path
    vocabulary: Vocabulary


def folder_of(name: str) -> Path:
    folder, fetched_by = FOLDERS[name]
    if not (folder / "tokenizer.json").is_file():
        pytest.skip(f"tokenizer {name} is absent, {fetched_by} fetches it")
    return folder


def mistral_file(name: str) -> Path:
    spec = importlib.util.find_spec("mistral_common")
    if spec is None or spec.origin is None:
        pytest.skip(f"tokenizer {name} is absent, it comes with mistral_common")
    return Path(spec.origin).parent / "data" / MISTRAL[name]


@cache
def load(path: Path) -> Vocabulary:
    from guided.vocabulary.sources import open_source

    return Vocabulary.from_table(open_source(path).read())  # not from the user's cache


def real(name: str) -> Real:
    path = folder_of(name) if name in FOLDERS else mistral_file(name)
    return Real(name, path, load(path))


@pytest.fixture(params=[*FOLDERS, *MISTRAL])
def any_real(request: pytest.FixtureRequest) -> Real:
    return real(request.param)


@pytest.fixture(params=list(FOLDERS))
def json_real(request: pytest.FixtureRequest) -> Real:
    return real(request.param)

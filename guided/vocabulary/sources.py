"""A path, hub name or tokenizer object in, a `Source` out: the name of its content and a way to read it; builds no vocabulary.

The name comes first since it is all that a cached vocabulary needs: with it neither transformers nor tokenizers is imported,
and tokenizer.json isn't even parsed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from guided.vocabulary.errors import VocabularyError
from guided.vocabulary.sentencepiece_model import load_sentencepiece, read_sentencepiece
from guided.vocabulary.stop_ids import stop_ids
from guided.vocabulary.tiktoken_ranks import is_tiktoken, read_tekken, read_tiktoken, tiktoken_ranks
from guided.vocabulary.token_table import TokenTable
from guided.vocabulary.tokenizer_json import read_tokenizer_json
from guided.vocabulary.tokenizer_objects import object_eos_id, read_object, serialised_engine, wrapper_config

# Tokenizer files of a model folder, best first; vLLM prefers Mistral's own where the weights are in Mistral's format.
TOKENIZER_FILES = (
    "tokenizer.json",
    "tekken.json",
    "tokenizer.model.v*",
    "tokenizer.model",
    "tiktoken.model",
    "*.tiktoken",
)
MISTRAL_FILES = ("tekken.json", "tokenizer.model.v*")
MISTRAL_WEIGHTS = "consolidated*.safetensors"
TOKENIZER_CONFIG, GENERATION_CONFIG, MODEL_CONFIG = "tokenizer_config.json", "generation_config.json", "config.json"
CONFIG_FILES = (TOKENIZER_CONFIG, GENERATION_CONFIG, MODEL_CONFIG)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a vocabulary comes from."""

    fingerprint: str | None  # names the content; None = it has no cheap name, so it isn't cached
    read: Callable[[], TokenTable]


def open_source(origin: Any) -> Source:
    """Find what `Vocabulary.from_pretrained` was given: a folder, a file, a tokenizer object or a hub name.

    Raises:
        VocabularyError: nothing there, or nothing that we can read.
    """
    if not isinstance(origin, (str, os.PathLike)):
        return object_source(origin)
    path = Path(origin).expanduser()
    if path.is_file():
        return file_source(path)
    return folder_source(path if path.is_dir() else hub_folder(str(origin)))


def folder_source(folder: Path) -> Source:
    """The tokenizer of a model folder; transformers is asked only where there is no file that we know."""
    tokenizer_file = find_tokenizer_file(folder)
    return file_source(tokenizer_file) if tokenizer_file is not None else object_source(_auto_tokenizer(folder))


def find_tokenizer_file(folder: Path) -> Path | None:
    """The file that vLLM would take the tokenizer from."""
    mistral_first = any(folder.glob(MISTRAL_WEIGHTS))
    for pattern in (*(MISTRAL_FILES if mistral_first else ()), *TOKENIZER_FILES):
        found = sorted(path for path in folder.glob(pattern) if path.is_file())
        if found:
            return found[-1]  # the highest version
    return None


def file_source(path: Path) -> Source:
    """A tokenizer file with the configuration files beside it."""
    content = _read_bytes(path)
    configs = {name: _read_bytes(path.parent / name) for name in CONFIG_FILES if (path.parent / name).is_file()}
    parts = [("tokenizer", content), *configs.items()]

    def read() -> TokenTable:
        parsed = {name: _parse(text, path.parent / name) for name, text in configs.items()}
        table = read_file(path, content, parsed.get(TOKENIZER_CONFIG, {}))
        return with_stop_ids(table, stop_ids(parsed.get(GENERATION_CONFIG, {}), parsed.get(MODEL_CONFIG, {})))

    return Source(fingerprint(parts), read)


def read_file(path: Path, content: bytes, config: Mapping[str, Any]) -> TokenTable:
    """Read a tokenizer file by what is in it."""
    if path.suffix == ".json":
        document = _parse(content, path)
        if "model" not in document and "vocab" in document and "config" in document:
            return read_tekken(document)
        return read_tokenizer_json(document, config)
    if is_tiktoken(content):
        return read_tiktoken(tiktoken_ranks(content), {}, config)
    return read_sentencepiece(load_sentencepiece(content), config)


def object_source(tokenizer: Any) -> Source:
    """A tokenizer object; the stop ids of the model that it was loaded from count too, where its files are at hand."""
    serialised = serialised_engine(tokenizer)
    eos_ids = object_eos_id(tokenizer) | _stop_ids_of(getattr(tokenizer, "name_or_path", None))
    name = None
    if serialised is not None:
        about = json.dumps([wrapper_config(tokenizer), sorted(eos_ids)], sort_keys=True)
        name = fingerprint([("serialised", serialised.encode()), ("wrapper", about.encode())])
    return Source(name, lambda: with_stop_ids(read_object(tokenizer, serialised), eos_ids))


def with_stop_ids(table: TokenTable, eos_ids: frozenset[int]) -> TokenTable:
    """Add stop ids; a stop token is never text. Ids that the tokenizer doesn't have can't be sampled and are dropped."""
    eos_ids = frozenset(token_id for token_id in eos_ids if token_id < len(table.pieces))
    pieces = list(table.pieces)
    for token_id in eos_ids:
        pieces[token_id] = b""
    return replace(table, pieces=pieces, eos_ids=table.eos_ids | eos_ids)


def fingerprint(parts: list[tuple[str, bytes]]) -> str:
    """Hex digest of named contents."""
    digest = hashlib.sha256()
    for name, content in parts:
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def hub_folder(name: str) -> Path:
    """The local copy of a hub repository's tokenizer files, downloaded where it isn't there yet.

    Raises:
        VocabularyError: no such folder, file or repository, or no way to reach the hub.
    """
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
    except ImportError as error:
        raise VocabularyError(
            f"{name!r} is neither a file nor a folder, and huggingface_hub isn't installed"
        ) from error
    wanted = [*TOKENIZER_FILES, *CONFIG_FILES, "vocab.json", "merges.txt", "special_tokens_map.json"]
    try:
        try:
            folder = Path(snapshot_download(name, allow_patterns=wanted, local_files_only=True))
            if find_tokenizer_file(folder) is not None:
                return folder
        except LocalEntryNotFoundError:
            pass
        return Path(snapshot_download(name, allow_patterns=wanted))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise VocabularyError(
            f"{name!r} is neither a file nor a folder, and the hub doesn't give it: {error}"
        ) from error


def _stop_ids_of(name_or_path: Any) -> frozenset[int]:
    """Stop ids of a model folder or of a hub repository's local copy, without asking the network."""
    if not isinstance(name_or_path, str) or not name_or_path:
        return frozenset()
    folder = Path(name_or_path).expanduser()
    found = [folder / name for name in (GENERATION_CONFIG, MODEL_CONFIG)]
    if not folder.is_dir():
        found = _hub_cache_files(name_or_path)
    return stop_ids(*(_parse(_read_bytes(path), path) for path in found if path.is_file()))


def _hub_cache_files(name: str) -> list[Path]:
    try:
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError

        paths = [try_to_load_from_cache(name, file) for file in (GENERATION_CONFIG, MODEL_CONFIG)]
    except (ImportError, HFValidationError):
        return []  # not a hub name, or no hub client, so no cache of it either
    return [Path(path) for path in paths if isinstance(path, str)]


def _auto_tokenizer(folder: Path) -> Any:
    try:
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(str(folder))
    except (ImportError, OSError, ValueError, KeyError) as error:
        raise VocabularyError(
            f"{folder} holds no tokenizer that we know ({', '.join(TOKENIZER_FILES)}): {error}"
        ) from error


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise VocabularyError(f"can't read {path}: {error.strerror}") from error


def _parse(content: bytes, path: Path) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except ValueError as error:
        raise VocabularyError(f"{path} isn't JSON: {error}") from error
    if not isinstance(document, dict):
        raise VocabularyError(f"{path} isn't a JSON object")
    return document

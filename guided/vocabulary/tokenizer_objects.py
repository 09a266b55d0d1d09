"""A tokenizer object of another library in, a `TokenTable` out; opens no files.

Whatever the wrapper (transformers fast and slow, mistral_common, vLLM's cached and Mistral classes, remote code), inside is
one of four engines: `tokenizers.Tokenizer`, `sentencepiece.SentencePieceProcessor`, `tiktoken.Encoding` or Mistral's
`Tekkenizer`. The engine gives the bytes, the wrapper the added and special tokens.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from guided.vocabulary.errors import VocabularyError
from guided.vocabulary.sentencepiece_model import read_sentencepiece
from guided.vocabulary.tiktoken_ranks import read_tiktoken, tekken_table
from guided.vocabulary.token_table import TokenTable
from guided.vocabulary.tokenizer_json import read_tokenizer_json

# Module and class of the engines. A tokenizer object can only hold one whose module is already imported.
ENGINES = {
    "tokenizers": ("tokenizers", "Tokenizer"),
    "sentencepiece": ("sentencepiece", "SentencePieceProcessor"),
    "tekken": ("mistral_common.tokens.tokenizers.tekken", "Tekkenizer"),
    "tiktoken": ("tiktoken", "Encoding"),
}
# Where the wrappers keep what they wrap.
INNER = ("_tokenizer", "tokenizer", "instruct_tokenizer", "sp_model", "_model", "model", "encoder")
MAX_WRAPPERS = 4


def find_engine(tokenizer: Any) -> tuple[str, Any]:
    """The engine inside a tokenizer object and its name in `ENGINES`, outermost first.

    Raises:
        VocabularyError: there is none that we know.
    """
    layer = [tokenizer]
    for _ in range(MAX_WRAPPERS + 1):
        for candidate in layer:
            for name, (module, class_name) in ENGINES.items():
                engine_class = getattr(sys.modules.get(module), class_name, None)
                if engine_class is not None and isinstance(candidate, engine_class):
                    return name, candidate
        layer = [inner for candidate in layer for inner in _inner_objects(candidate)]
    raise VocabularyError(
        f"unknown tokenizer family: {type(tokenizer).__module__}.{type(tokenizer).__qualname__} holds none of "
        f"{', '.join(f'{module}.{name}' for module, name in ENGINES.values())}"
    )


def _inner_objects(candidate: Any) -> Iterator[Any]:
    for name in INNER:
        inner = getattr(candidate, name, None)
        if inner is not None:
            yield inner


def wrapper_config(tokenizer: Any) -> dict[str, Any]:
    """What the wrapper says of added and special tokens, in the form of a tokenizer_config.json."""
    added = getattr(tokenizer, "added_tokens_decoder", None)
    if not isinstance(added, Mapping):  # Mistral's classes have a method of that name, and no added tokens
        added = {}
    return {
        "added_tokens_decoder": {
            str(token_id): {"content": str(token), "special": bool(getattr(token, "special", True))}
            for token_id, token in added.items()
        },
        "additional_special_tokens": [str(token) for token in getattr(tokenizer, "all_special_tokens", None) or ()],
    }


def object_eos_id(tokenizer: Any) -> frozenset[int]:
    """The wrapper's own stop token."""
    eos_id = getattr(tokenizer, "eos_token_id", None)
    return frozenset([eos_id]) if isinstance(eos_id, int) and eos_id >= 0 else frozenset()


def serialised_engine(tokenizer: Any) -> str | None:
    """The text of a `tokenizers.Tokenizer` inside, which names its content; None for other engines."""
    name, engine = find_engine(tokenizer)
    return engine.to_str() if name == "tokenizers" else None


def read_object(tokenizer: Any, serialised: str | None) -> TokenTable:
    """Bytes and meaning of every token of a tokenizer object.

    Args:
        serialised: what `serialised_engine` gave for it.

    Raises:
        VocabularyError: unknown family.
    """
    name, engine = find_engine(tokenizer)
    config = {} if engine is tokenizer else wrapper_config(tokenizer)
    if serialised is not None:
        return read_tokenizer_json(json.loads(serialised), config)
    if name == "sentencepiece":
        return read_sentencepiece(engine, config)
    if name == "tekken":
        special = {token_id: engine.id_to_piece(token_id) for token_id in engine.special_ids}
        return tekken_table(engine._tekken_token2id_nospecial, special)
    return read_tiktoken(engine._mergeable_ranks, engine._special_tokens, config)

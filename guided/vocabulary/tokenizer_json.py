"""A parsed tokenizer.json (Hugging Face `tokenizers`) and its tokenizer_config.json in, a `TokenTable` out; reads no files.

The structure is that of `Tokenizer.to_str()`: `model.vocab`, `added_tokens`, `decoder`. Normaliser and pre-tokeniser only
matter for text -> tokens, so they aren't looked at. The vocabulary is read id by id: dictionaries by content lose ids where
two tokens have the same content (GLM-4, Phi-3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from guided.vocabulary.errors import VocabularyError
from guided.vocabulary.piece_decoder import piece_decoder
from guided.vocabulary.token_table import (
    MAX_TOKEN_ID,
    TokenTable,
    added_from_records,
    table_from_texts,
    with_config,
)


def read_tokenizer_json(document: Mapping[str, Any], config: Mapping[str, Any]) -> TokenTable:
    """Bytes and meaning of every token of a tokenizer.json.

    Args:
        document: the parsed tokenizer.json.
        config: the parsed tokenizer_config.json, or an empty mapping.

    Raises:
        VocabularyError: unknown family, or a file that isn't a tokenizer.json.
    """
    try:
        model, records = document["model"], document.get("added_tokens") or []
        texts = model_texts(model["vocab"])
        added = added_from_records((record["id"], record) for record in records)
    except (KeyError, TypeError, AttributeError) as error:
        raise VocabularyError(f"not a tokenizer.json: {error!r}") from error
    decoder = piece_decoder(document.get("decoder"))
    known = {text: token_id for token_id, text in enumerate(texts) if text is not None}
    added = with_config(added, config, known, next_id=len(texts))
    special_contents = added.special_contents
    # The library tells special tokens by content, so a model piece that is spelled like one is left out as well.
    pieces = decoder.decode_all([None if text in special_contents else text for text in texts])
    added_bytes = dict(zip(added.text, decoder.decode_all(list(added.text.values())), strict=True))
    return table_from_texts(
        pieces, added, added_bytes, added.ids_of(config.get("eos_token")), strips=decoder.strips_leading_space
    )


def model_texts(vocab: Mapping[str, int] | list[Any]) -> list[str | None]:
    """Spellings by id, None where an id has none. BPE and WordLevel map text -> id; Unigram lists (text, score) pairs."""
    if isinstance(vocab, list):
        return [entry[0] for entry in vocab]
    highest = max(vocab.values(), default=-1)
    if highest > MAX_TOKEN_ID or min(vocab.values(), default=0) < 0:
        raise VocabularyError(f"token id out of range: {highest}")
    texts: list[str | None] = [None] * (highest + 1)
    for text, token_id in vocab.items():
        texts[token_id] = text
    return texts

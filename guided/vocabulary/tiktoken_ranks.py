"""Tables of byte strings by rank in (Mistral's tekken.json, tiktoken's `base64 rank` lines), a `TokenTable` out; reads no files.

In these formats a token *is* its bytes. Special tokens stand before the ranks (Tekken) or after them (tiktoken).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from guided.vocabulary.errors import VocabularyError
from guided.vocabulary.token_table import (
    MAX_TOKEN_ID,
    AddedTokens,
    TokenTable,
    table_from_texts,
    with_config,
)

# What ids 0..19 are where a tekken.json lists no special tokens (versions up to v7; mistral_common has the same list).
UNLISTED_TEKKEN_SPECIALS = (
    *("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
    *("[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]"),
    *("[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"),
)


def is_tiktoken(content: bytes) -> bool:
    """Whether a file is a list of `base64 rank` lines; a SentencePiece model is binary."""
    first_line = content.split(b"\n", 1)[0].split()
    return len(first_line) == 2 and first_line[1].isdigit() and first_line[0].isascii()


def read_tekken(document: Mapping[str, Any]) -> TokenTable:
    """A parsed tekken.json: the special tokens first, then `default_vocab_size` less those by rank.

    Raises:
        VocabularyError: not a tekken.json.
    """
    try:
        num_special = document["config"]["default_num_special_tokens"]
        num_text = document["config"]["default_vocab_size"] - num_special
        listed = document.get("special_tokens") or [
            {"rank": rank, "token_str": name} for rank, name in enumerate(UNLISTED_TEKKEN_SPECIALS)
        ]
        special = {token["rank"]: token["token_str"] for token in listed}
        ranks = {
            base64.b64decode(token["token_bytes"]): token["rank"]
            for token in document["vocab"]
            if token["rank"] < num_text
        }
    except (KeyError, TypeError, binascii.Error) as error:
        raise VocabularyError(f"not a tekken.json: {error!r}") from error
    for token_id in range(num_special):
        special.setdefault(token_id, f"<SPECIAL_{token_id}>")
    return tekken_table(ranks, special)


def tekken_table(ranks: Mapping[bytes, int], special: Mapping[int, str]) -> TokenTable:
    """A Tekken vocabulary from its parts: ranks start after the special tokens."""
    pieces = [b""] * len(special) + pieces_by_rank(ranks)
    eos_ids = [token_id for token_id, name in special.items() if name == "</s>"]
    return table_from_texts(pieces, AddedTokens({}, dict(special)), {}, eos_ids, strips=False)


def read_tiktoken(ranks: Mapping[bytes, int], special: Mapping[str, int], config: Mapping[str, Any]) -> TokenTable:
    """A tiktoken vocabulary with its special tokens; `config` is the parsed tokenizer_config.json, or empty."""
    pieces = pieces_by_rank(ranks)
    listed = {int(token_id) for token_id in (config.get("added_tokens_decoder") or {})}
    # tiktoken calls every added token special; where the config lists one, the config says which it is.
    added = AddedTokens({}, {token_id: name for name, token_id in special.items() if token_id not in listed})
    known = {piece.decode(): token_id for token_id, piece in enumerate(pieces) if _is_utf8(piece)}
    added = with_config(added, config, known, next_id=len(pieces))
    added_bytes = {token_id: content.encode() for token_id, content in added.text.items()}
    return table_from_texts(pieces, added, added_bytes, added.ids_of(config.get("eos_token")), strips=False)


def tiktoken_ranks(content: bytes) -> dict[bytes, int]:
    """The lines `base64(token) rank` of a tiktoken file."""
    try:
        pairs = (line.split() for line in content.splitlines() if line.strip())
        return {base64.b64decode(token): int(rank) for token, rank in pairs}
    except (ValueError, binascii.Error) as error:
        raise VocabularyError(f"not a tiktoken file: {error}") from error


def pieces_by_rank(ranks: Mapping[bytes, int]) -> list[bytes]:
    """Pieces in a list, index = rank; b"" where a rank is missing."""
    highest = max(ranks.values(), default=-1)
    if highest > MAX_TOKEN_ID or min(ranks.values(), default=0) < 0:
        raise VocabularyError(f"token rank out of range: {highest}")
    pieces = [b""] * (highest + 1)
    for piece, rank in ranks.items():
        pieces[rank] = piece
    return pieces


def _is_utf8(piece: bytes) -> bool:
    try:
        piece.decode()
    except UnicodeDecodeError:
        return False
    return True

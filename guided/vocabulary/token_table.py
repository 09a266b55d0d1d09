"""The boundary between tokenizer formats and the vocabulary: token bytes and the ids with a meaning; knows no file format.

Every reader (`tokenizer_json`, `sentencepiece_model`, `tiktoken_ranks`, `tokenizer_objects`) ends in a `TokenTable`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from guided.vocabulary.errors import VocabularyError

# A tokenizer with more ids than this is a broken file (the largest ones served today have about 260,000).
MAX_TOKEN_ID = 1 << 24

# transformers' tokenizer classes give roles to tokens that tokenizer_config.json says nothing about, and vLLM then leaves
# them out of the text. Gemma's tokenizer.json has `<mask>` as a token that is text.
CLASS_ROLES = {"GemmaTokenizer": {"mask_token": "<mask>"}, "CohereTokenizer": {"mask_token": "<MASK_TOKEN>"}}


@dataclass(frozen=True, slots=True)
class TokenTable:
    """What a tokenizer file says, before padding and before the trie."""

    pieces: list[bytes]  # index = token id; b"" = not text: special, unused, or empty
    special_token_ids: dict[str, int]  # special tokens by name
    eos_ids: frozenset[int]  # stop tokens that the tokenizer itself names
    strips_leading_space: bool  # see Vocabulary.strips_leading_space


@dataclass(frozen=True, slots=True)
class AddedTokens:
    """Tokens that stand beside the model's own pieces: text such as `<tool_call>`, or special such as `<|im_end|>`."""

    text: dict[int, str]
    special: dict[int, str]

    @property
    def special_contents(self) -> frozenset[str]:
        return frozenset(self.special.values())

    def ids_of(self, value: Any) -> list[int]:
        """Ids of a special token as tokenizer_config.json writes it; none where it is null."""
        content = token_content(value)
        return [token_id for token_id, special in self.special.items() if special == content]

    def highest_id(self) -> int:
        """The largest id of all, -1 where there is none."""
        return max(max(self.text, default=-1), max(self.special, default=-1))


def added_from_records(records: Iterable[tuple[int, Mapping[str, Any]]]) -> AddedTokens:
    """Sort `{"content": ..., "special": ...}` records (tokenizer.json, tokenizer_config.json) by what they are."""
    text: dict[int, str] = {}
    special: dict[int, str] = {}
    for token_id, record in records:
        content = record.get("content")
        if not isinstance(content, str) or not 0 <= token_id <= MAX_TOKEN_ID:
            raise VocabularyError(f"added token {token_id} has no usable content or id: {record!r}")
        (special if record.get("special") else text)[token_id] = content
    return AddedTokens(text, special)


def with_config(added: AddedTokens, config: Mapping[str, Any], known: Mapping[str, int], next_id: int) -> AddedTokens:
    """The added tokens as transformers sees them, once `tokenizer_config.json` has spoken too.

    A token is special where either file says so or where the config gives it a role (`eos_token`, `pad_token`,
    `additional_special_tokens`...). A named token that has no id yet gets the next free one, as in transformers.

    Args:
        known: content -> id of the model's own pieces.
        next_id: the first id that nothing uses yet.
    """
    overlay = added_from_records(
        (int(key), record) for key, record in (config.get("added_tokens_decoder") or {}).items()
    )
    special = {**added.special, **overlay.special}
    text = {**overlay.text, **added.text}
    ids = {**known, **{content: token_id for token_id, content in (text | special).items()}}
    next_id = max(next_id, AddedTokens(text, special).highest_id() + 1)
    for content in named_special_tokens(config):
        token_id = ids.get(content)
        if token_id is None:
            token_id, next_id = next_id, next_id + 1
            ids[content] = token_id
        special[token_id] = content
    return AddedTokens({i: content for i, content in text.items() if i not in special}, special)


def named_special_tokens(config: Mapping[str, Any]) -> list[str]:
    """Contents of the tokens that `tokenizer_config.json` gives a role, each once, in order."""
    roles = CLASS_ROLES.get(str(config.get("tokenizer_class")).removesuffix("Fast"), {}) | dict(config)
    values = [roles.get(f"{role}_token") for role in ("bos", "eos", "unk", "sep", "pad", "cls", "mask")]
    for key in ("additional_special_tokens", "extra_special_tokens"):
        group = config.get(key) or []
        values.extend(group.values() if isinstance(group, Mapping) else group)
    return list(dict.fromkeys(content for content in map(token_content, values) if content))


def token_content(value: Any) -> str | None:
    """A token as written in `tokenizer_config.json`: its text, or a record with a `content`."""
    if isinstance(value, Mapping):
        value = value.get("content")
    return value if isinstance(value, str) else None


def table_from_texts(
    model_pieces: Sequence[bytes],
    added: AddedTokens,
    added_bytes: Mapping[int, bytes],
    eos_ids: Iterable[int],
    *,
    strips: bool,
) -> TokenTable:
    """Lay added tokens over the model's pieces; special ones, and stop tokens, have no bytes."""
    size = max(len(model_pieces), added.highest_id() + 1)
    pieces = list(model_pieces) + [b""] * (size - len(model_pieces))
    for token_id, piece in added_bytes.items():
        pieces[token_id] = piece
    stops = frozenset(token_id for token_id in eos_ids if 0 <= token_id < size)
    for token_id in (*added.special, *stops):
        pieces[token_id] = b""
    return TokenTable(pieces, {content: i for i, content in sorted(added.special.items(), reverse=True)}, stops, strips)

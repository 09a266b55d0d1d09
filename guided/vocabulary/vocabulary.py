"""A tokenizer in, bytes for every token id out, with the stop tokens and a byte trie; knows neither constraints nor automata."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from guided.vocabulary import vocabulary_file
from guided.vocabulary.errors import VocabularyError
from guided.vocabulary.sources import open_source
from guided.vocabulary.token_table import TokenTable
from guided.vocabulary.trie import TokenBytes, Trie


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """What a model can write: the bytes of each token id.

    Ids fall in three groups. *Text* ids have bytes; equal bytes under several ids are all kept. *Stop* ids end the output.
    All others (special tokens, holes, ids between the tokenizer's size and the model's) have no bytes and are never allowed.

    Concatenating the bytes of output tokens gives the text that the client reads, with one exception, the attribute
    `strips_leading_space`. SentencePiece tokenizers of the Llama-2 kind put a space before every text and take one off when
    they decode. What is decoded decides:

    * In vLLM, output is decoded after its prompt (`DecodeStream` primed with the prompt ids, or the last few of them for
      Mistral's own tokenizers), and the space that is taken off is the prompt's. A first output token `▁Pizza` is " Pizza".
    * Only where the prompt has no text of its own (empty, embeddings, special tokens alone) does the output lose its first
      space, be it in `▁Pizza`, `▁` or `<0x20>`. The same goes for decoding output tokens by themselves.

    So the bytes are right as they stand for every ordinary request; `drops_first_space(prompt)` tells the others.
    """

    token_bytes: TokenBytes  # bytes by token id; len() is `size`
    trie: Trie  # of all text tokens
    eos_ids: tuple[int, ...]  # every stop id of tokenizer, generation_config.json and config.json, ascending
    special_token_ids: dict[str, int]  # special tokens by name, stop tokens among them; for grammars that name them
    strips_leading_space: bool  # a decode that starts with output, without any prompt text, loses one leading space
    digest: str  # hex, stable: bytes, stop ids, special tokens, size

    @classmethod
    def from_pretrained(
        cls, origin: Any, padded_size: int | None = None, cache_dir: str | os.PathLike[str] | None = None
    ) -> Vocabulary:
        """Read the vocabulary of a tokenizer.

        Args:
            origin: a model folder; a tokenizer.json, tekken.json, SentencePiece or tiktoken file; a hub name (its local copy
                is used where there is one); or a tokenizer object of tokenizers, transformers, mistral_common, tiktoken,
                sentencepiece or vLLM.
            padded_size: the model's vocabulary size, that is the width of its logits. Ids beyond the tokenizer's are never
                allowed, tokens beyond it can't be sampled and are dropped. By default the tokenizer's size.
            cache_dir: where finished vocabularies are kept, `$GUIDED_CACHE_DIR/vocabularies` by default.

        Raises:
            VocabularyError: nothing there, broken, or of a family whose tokens have no bytes of their own.
        """
        source = open_source(origin)
        if source.fingerprint is None:
            return cls.from_table(source.read(), padded_size)
        folder = vocabulary_file.cache_folder(cache_dir)
        path = vocabulary_file.cache_path(folder, source.fingerprint, padded_size)
        stored = vocabulary_file.load(path)
        if stored is not None:
            return cls._from_stored(*stored)
        vocabulary = cls.from_table(source.read(), padded_size)
        vocabulary_file.save(path, *vocabulary._to_stored())
        return vocabulary

    @classmethod
    def from_tokens(
        cls, tokens: Sequence[bytes], eos_ids: Iterable[int] = (), special_token_ids: Mapping[str, int] | None = None
    ) -> Vocabulary:
        """A vocabulary from a list of byte strings, index = token id; stop and special tokens lose their bytes. For tests.

        Raises:
            TypeError: a token that is not bytes.
            VocabularyError: ids that are no tokens.
        """
        wrong = next((token_id for token_id, token in enumerate(tokens) if not isinstance(token, bytes)), None)
        if wrong is not None:
            raise TypeError(f"token {wrong} is not bytes but {type(tokens[wrong]).__name__}")
        eos_ids, special = frozenset(eos_ids), dict(special_token_ids or {})
        not_text = eos_ids | set(special.values())
        if any(not 0 <= token_id < len(tokens) for token_id in not_text):
            raise VocabularyError(f"ids outside of 0..{len(tokens) - 1}: {sorted(not_text)}")
        pieces = [b"" if token_id in not_text else token for token_id, token in enumerate(tokens)]
        return cls.from_table(TokenTable(pieces, special, eos_ids, strips_leading_space=False))

    @classmethod
    def from_table(cls, table: TokenTable, padded_size: int | None = None) -> Vocabulary:
        """Pad or cut a table to the model's size and build the trie."""
        size = len(table.pieces) if padded_size is None else padded_size
        if size < 1:
            raise VocabularyError(f"a vocabulary of {size} tokens")
        pieces = table.pieces[:size] + [b""] * (size - len(table.pieces))
        token_bytes = TokenBytes.from_pieces(pieces)
        eos_ids = tuple(sorted(token_id for token_id in table.eos_ids if token_id < size))
        special = {name: token_id for name, token_id in sorted(table.special_token_ids.items()) if token_id < size}
        return cls(
            token_bytes=token_bytes,
            trie=Trie.build(token_bytes),
            eos_ids=eos_ids,
            special_token_ids=special,
            strips_leading_space=table.strips_leading_space,
            digest=vocabulary_digest(token_bytes, eos_ids, special, table.strips_leading_space),
        )

    @property
    def size(self) -> int:
        """Number of ids, padding included: the width of the logits that masks are made for."""
        return len(self.token_bytes)

    def __len__(self) -> int:
        return self.size

    def bytes_of(self, token_id: int) -> bytes:
        """The bytes of a token; empty where it isn't text. Raises IndexError for an id outside of the vocabulary."""
        return self.token_bytes[token_id]

    def is_text(self, token_id: int) -> bool:
        """Whether the token has bytes, so that a constraint may allow it."""
        return bool(self.token_bytes[token_id])

    def drops_first_space(self, prompt_token_ids: Iterable[int]) -> bool:
        """Whether vLLM would swallow one space at the very start of the output after this prompt; see the class."""
        return self.strips_leading_space and not any(self.is_text(token_id) for token_id in prompt_token_ids)

    def to_bytes(self) -> bytes:
        """All of it, for another process; `from_buffer` reads it back."""
        return vocabulary_file.to_bytes(*self._to_stored())

    @classmethod
    def from_buffer(cls, buffer: Any) -> Vocabulary:
        """What `to_bytes` wrote, from a writable buffer that stays in use."""
        return cls._from_stored(*vocabulary_file.parse(memoryview(buffer)))

    def _to_stored(self) -> tuple[dict[str, Any], vocabulary_file.Arrays]:
        meta = {
            "eos_ids": self.eos_ids,
            "special_token_ids": self.special_token_ids,
            "strips_leading_space": self.strips_leading_space,
            "digest": self.digest,
        }
        trie = {name: getattr(self.trie, name) for name in Trie.__slots__}
        return meta, {"data": self.token_bytes.data, "offsets": self.token_bytes.offsets, **trie}

    @classmethod
    def _from_stored(cls, meta: dict[str, Any], arrays: vocabulary_file.Arrays) -> Vocabulary:
        return cls(
            token_bytes=TokenBytes(arrays["data"], arrays["offsets"]),
            trie=Trie(**{name: arrays[name] for name in Trie.__slots__}),
            eos_ids=tuple(meta["eos_ids"]),
            special_token_ids=meta["special_token_ids"],
            strips_leading_space=meta["strips_leading_space"],
            digest=meta["digest"],
        )


def vocabulary_digest(
    token_bytes: TokenBytes, eos_ids: Sequence[int], special: Mapping[str, int], strips_leading_space: bool
) -> str:
    """Hex digest of all that an index depends on; the same on every platform."""
    digest = hashlib.blake2b(b"guided vocabulary 1", digest_size=20)
    about = [list(eos_ids), sorted(special.items()), strips_leading_space]
    for part in (repr(about).encode(), np.asarray(token_bytes.offsets, "<i8").tobytes(), token_bytes.data.tobytes()):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()

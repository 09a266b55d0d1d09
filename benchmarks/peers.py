"""The other engines behind one call each: constraint in, a filled first mask out. Knows nothing of this project's own index."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import llguidance
import llguidance.numpy
import numpy as np
import outlines_core
import xgrammar

from guided import Vocabulary

FirstMask = Callable[[str], object]


class Peers:
    """One tokenizer, three engines, each loaded when it is first used; each method returns what keeps the compiled constraint alive."""

    def __init__(self, tokenizer_folder: Path, vocabulary: Vocabulary) -> None:
        self.vocabulary_size = vocabulary.size
        self._stop = list(vocabulary.eos_ids)
        self._pieces = [vocabulary.bytes_of(token_id) for token_id in range(vocabulary.size)]
        self._text = (tokenizer_folder / "tokenizer.json").read_text()

    @cached_property
    def llguidance_tokenizer(self) -> llguidance.LLTokenizer:
        return llguidance.LLTokenizer(self._text, n_vocab=self.vocabulary_size, eos_token=self._stop[0])

    @cached_property
    def xgrammar_compiler(self) -> xgrammar.GrammarCompiler:
        """Its cache is off, so that every repetition compiles."""
        names = {added["id"]: added["content"].encode() for added in json.loads(self._text)["added_tokens"]}
        info = xgrammar.TokenizerInfo(
            [piece or names.get(token_id, b"") for token_id, piece in enumerate(self._pieces)],
            stop_token_ids=self._stop,
        )
        return xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)

    @cached_property
    def outlines_vocabulary(self) -> outlines_core.Vocabulary:
        ids: dict[bytes, list[int]] = {}
        for token_id, piece in enumerate(self._pieces):
            if piece:
                ids.setdefault(piece, []).append(token_id)
        return outlines_core.Vocabulary(self._stop[0], ids)

    def llguidance(self, kind: str, text: str) -> llguidance.LLMatcher:
        """A matcher of kind "regex", "json" or "lark" that has computed its first mask."""
        grammar = llguidance.grammar_from("json_schema" if kind == "json" else kind, text)
        matcher = llguidance.LLMatcher(self.llguidance_tokenizer, grammar)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        mask = llguidance.numpy.allocate_token_bitmask(1, self.vocabulary_size)
        llguidance.numpy.fill_next_token_bitmask(matcher, mask, 0)
        return matcher

    def xgrammar(self, kind: str, text: str) -> xgrammar.GrammarMatcher:
        """A matcher of kind "regex", "json" or "gbnf" that has computed its first mask."""
        compilers = {
            "regex": self.xgrammar_compiler.compile_regex,
            "json": self.xgrammar_compiler.compile_json_schema,
            "gbnf": self.xgrammar_compiler.compile_grammar,
        }
        matcher = xgrammar.GrammarMatcher(compilers[kind](text))
        mask = xgrammar.allocate_token_bitmask(1, self.vocabulary_size)
        matcher.fill_next_token_bitmask(mask, 0)
        return matcher

    def outlines(self, text: str) -> np.ndarray:
        """The whole index of a regex, which is what outlines-core builds before it can mask; its first mask."""
        guide = outlines_core.Guide(outlines_core.Index(text, self.outlines_vocabulary))
        mask = np.zeros(-(-self.vocabulary_size // 32), np.int32)
        guide.write_mask_into(mask.ctypes.data, mask.size, mask.itemsize)
        return mask

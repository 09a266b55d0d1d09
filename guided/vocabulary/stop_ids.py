"""Parsed generation_config.json and config.json in, stop token ids out; reads no files.

All ids count, of both files and of the tokenizer: Llama-3 ends a turn with an id that only generation_config.json names, and
Qwen's tokenizer and config disagree. vLLM itself stops on the tokenizer's id and on those of generation_config.json, or of
config.json where the former is missing. Whoever builds a guided request passes `Vocabulary.eos_ids` on as `stop_token_ids`,
so that the engine stops on each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Multimodal configs keep the language model's under one of these names.
NESTED_CONFIGS = ("text_config", "llm_config", "language_config")


def stop_ids(*configs: Mapping[str, Any]) -> frozenset[int]:
    """Every `eos_token_id` of the given parsed files, numbers and lists of numbers alike; anything else names no token."""
    found: set[int] = set()
    for config in configs:
        for part in (config, *(config.get(name) for name in NESTED_CONFIGS)):
            if not isinstance(part, Mapping):
                continue
            value = part.get("eos_token_id")
            values = value if isinstance(value, list) else [value]
            found.update(item for item in values if isinstance(item, int) and not isinstance(item, bool) and item >= 0)
    return frozenset(found)

"""In: vLLM's reasoning parser; out: the marker after which a model that thinks aloud answers. Knows no constraint and no HTTP.

Whether the answer begins with thoughts only vLLM knows, once the prompt is rendered: it tells the engine (`reasoning_ended`). Until
then a constraint is there twice, from the first token on and after the marker.
"""

from __future__ import annotations

from typing import Any

from vllm.parser import ParserManager


def end_of_reasoning(parser_name: str | None, tokenizer: Any) -> str | None:
    """The text that ends the thoughts ("</think>"); None without a parser, and where one has no such text.

    Raises:
        RuntimeError, ValueError: the tokenizer does not go with the parser.
    """
    parser = ParserManager.get_reasoning_parser(parser_name)
    return None if parser is None else parser(tokenizer).reasoning_end_str or None

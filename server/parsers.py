"""In: vLLM's serving objects; out: the same, with a layer of ours in front of the parsers that they make for their requests.

vLLM puts one class of parser together when it starts, out of a reasoning parser and a tool parser. Knows neither.
"""

from __future__ import annotations

from starlette.datastructures import State
from vllm.parser.abstract_parser import Parser

_HOLDERS = (  # attribute of the application's state, and its attribute with the parser
    ("online_renderer", "parser"),
    ("openai_serving_chat", "parser_cls"),
    ("openai_serving_responses", "parser"),
)


def put_in_front(state: State, layer: type[Parser]) -> None:
    """Has all requests parsed by `layer`, whose `super()` is what parsed them before."""
    for holder_name, name in _HOLDERS:
        holder = getattr(state, holder_name, None)
        parser = getattr(holder, name, None)
        if parser is not None:
            setattr(holder, name, in_front_of(parser, layer))


def in_front_of(parser: type[Parser], layer: type[Parser]) -> type[Parser]:
    return type(parser.__name__, (layer, parser), {})

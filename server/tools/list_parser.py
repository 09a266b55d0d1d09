"""vLLM's tool parser for servers that were given none: it lets required and named calls be read, which are vLLM's JSON list then.

Calls that the model makes by itself cannot be told from text without knowing its format: those are refused, as vLLM does.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from vllm.entrypoints.generate.base.protocol import DeltaMessage, ExtractedToolCallInformation
from vllm.exceptions import VLLMValidationError
from vllm.tool_parsers import ToolParser, ToolParserManager

NAME = "guided_json"
# Their parsers are no pairs of a reasoning parser and any tool parser.
_WHOLE_PARSERS = ("hf", "kimi_k3", "cohere_command3", "cohere_command4", "minicpmv")


class ListParser(ToolParser):
    """Reads nothing by itself: vLLM reads the list."""

    def adjust_request(self, request: Any) -> Any:
        """The request as it is: its constraint is not vLLM's.

        Raises:
            VLLMValidationError: HTTP 400: the model is to choose.
        """
        if request.tools and request.tool_choice == "auto":
            message = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
            message += '; "required" and named tools do not'
            raise VLLMValidationError(message, parameter="tool_choice")
        return request

    def extract_tool_calls(self, model_output: str, request: Any) -> ExtractedToolCallInformation:
        return ExtractedToolCallInformation(tools_called=False, tool_calls=[], content=model_output)

    def extract_tool_calls_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
        request: Any,
    ) -> DeltaMessage | None:
        return DeltaMessage(content=delta_text) if delta_text else None


def use_where_none_is_set(args: Namespace, model_type: str) -> None:
    """Sets this parser in vLLM's arguments where they have none for all tool choices."""
    reasoning = args.structured_outputs_config.reasoning_parser
    if args.enable_auto_tool_choice or model_type == "gpt_oss" or reasoning in _WHOLE_PARSERS:
        return
    ToolParserManager.register_module(NAME, module=ListParser)
    args.tool_call_parser, args.enable_auto_tool_choice = NAME, True

"""In: vLLM's parser class, a reasoning parser and perhaps a tool parser; out: the same, which knows where constrained answers begin.

vLLM's own parsers read thinking out of the text: some take all of it for thinking until an end marker comes, others look for the end
marker in the whole prompt. Beside a constraint the sections are known (`server.thinking.sections`), and only the answer goes on to
the tool parser, if the request has tools.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from vllm.entrypoints.generate.base.protocol import DeltaMessage, FunctionCall
from vllm.parser.abstract_parser import DelegatingParser, Parser

from server.engine import Pending, pending_constraint
from server.thinking.sections import Sections, Splitter
from server.tools.parser import Parsed, may_call

ON = {"thinking": True, "enable_thinking": True}  # the switches of chat templates
_CHANNELS = ("<|channel>", "<|content_thinking|>")  # start markers of more than thinking, or with a heading behind them


def markers_of(parser_class: type[Parser], tokenizer: Any, model_config: Any = None) -> tuple[str, str] | None:
    """The start and the end marker of thinking; None where they do not say what is thinking, or the parser does more than that."""
    if parser_class.reasoning_parser_cls is None or DelegatingParser not in parser_class.__bases__:
        return None
    reasoning = parser_class.reasoning_parser_cls(tokenizer, chat_template_kwargs=dict(ON), model_config=model_config)
    start, end = reasoning.reasoning_start_str, reasoning.reasoning_end_str
    return (start, end) if start and end and start not in _CHANNELS else None


def switched_off(parser_class: type[Parser], tokenizer: Any, template_options: dict[str, Any]) -> bool:
    """Does the request say that the model is not to think? In the template's options, or the parser understands them so."""
    if template_options.get("reasoning_effort") == "none":
        return True
    switches = [template_options[name] for name in ON if template_options.get(name) is not None]
    if switches:
        return not any(switches)
    parser = parser_class(tokenizer, chat_template_kwargs=dict(template_options))
    return bool(parser.is_reasoning_end([]))


class SectionsParser(Parser):
    """In front of a parser, which gets what belongs to the answer."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        pending = pending_constraint.get()
        self._pending = pending if isinstance(pending, Pending) else None
        self._splitter: Splitter | None = None

    @property
    def _sections(self) -> Sections | None:
        """Known when the prompt is, and that is after the parser."""
        return None if self._pending is None else self._pending.sections

    def parse(
        self,
        model_output: str,
        request: Any,
        enable_auto_tools: bool = False,
        model_output_token_ids: Sequence[int] = (),
    ) -> Parsed:
        if self._sections is None:
            return super().parse(model_output, request, enable_auto_tools, model_output_token_ids)
        splitter = Splitter(self._sections)
        thinking, answer = map("".join, zip(splitter.feed(model_output), splitter.finish(), strict=True))
        content = answer if answer or splitter.in_answer else None
        calls: list[FunctionCall] | None = []
        if may_call(request):
            self._initialize_history_tool_call_cnt(request)
            calls, content = self._extract_tool_calls(content, request, enable_auto_tools)
        return thinking or None, content, calls

    def parse_delta(
        self,
        delta_text: str,
        delta_token_ids: list[int],
        request: Any,
        prompt_token_ids: list[int] | None = None,
        *,
        finished: bool,
    ) -> DeltaMessage | None:
        parse_delta = partial(super().parse_delta, request=request, finished=finished)
        state = self._stream_state
        if self._sections is None or (self._splitter is None and state.reasoning_ended):  # the answer alone is parsed
            return parse_delta(delta_text, delta_token_ids, prompt_token_ids=prompt_token_ids)
        self._splitter = self._splitter or Splitter(self._sections)
        before = self._splitter.in_answer
        thinking, answer = self._splitter.feed(delta_text)
        if finished:
            rest = self._splitter.finish()
            thinking, answer = thinking + rest[0], answer + rest[1]
        delta = DeltaMessage(content=answer) if answer else None
        if may_call(request) and (answer or self._splitter.in_answer):
            state.reasoning_ended = state.prompt_reasoning_checked = True
            token_ids = delta_token_ids if before else self._encoded(answer)
            delta = parse_delta(answer, token_ids)
        if thinking and request.include_reasoning:
            delta = delta or DeltaMessage()
            delta.reasoning = thinking
        return delta

    def _encoded(self, text: str) -> list[int]:
        return self.model_tokenizer.encode(text, add_special_tokens=False) if text else []

    def count_reasoning_tokens(self, token_ids: Sequence[int]) -> int:
        if self._sections is None:
            return super().count_reasoning_tokens(token_ids)
        decode = partial(self.model_tokenizer.decode, skip_special_tokens=False)
        return self._sections.count(token_ids, decode)

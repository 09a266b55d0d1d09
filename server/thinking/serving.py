"""In: vLLM's serving objects; out: the same, which compile the constraint of what follows a prompt as soon as they know the prompt.

Between the request's fields, which name the constraint, and the engine's answer lies the chat template, and only what it wrote says
whether the model is going to think. So this is done where the prompt has been rendered: what is refused here is refused before
the first byte of a stream, and what /v1/completions asks for never comes here.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from jinja2 import TemplateError
from starlette.datastructures import State
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.serve.engine.protocol import ErrorResponse
from vllm.parser.abstract_parser import Parser

from guided.constraint import Constraint
from guided.errors import ConstraintError
from guided.workers import Overloaded
from server.callers import overloaded
from server.compile_service import CompileService
from server.engine import Pending, pending_constraint
from server.errors import RequestRefused, from_constraint_error
from server.observation import current
from server.parsers import put_in_front
from server.thinking.parser import ON, SectionsParser, markers_of, switched_off
from server.thinking.sections import Beginning, Sections, beginning_after

logger = logging.getLogger(__name__)

Render = Callable[..., Awaitable[Any]]

_SWITCHES = (None, ON, dict.fromkeys(ON, False))  # options of the chat template


def think_first(state: State, compile_service: CompileService) -> Thinking | None:
    """Changes the serving objects in the application's state, if they separate thinking from answers; constraints come after it then.

    None where they do not.
    """
    renderer = state.online_renderer
    if not renderer.use_harmony and (renderer.parser is None or renderer.parser.reasoning_parser_cls is None):
        return None
    thinking = Thinking(renderer, compile_service)
    renderer.render_chat = thinking.around(renderer.render_chat, _prompt_of_chat)
    renderer.render_responses = thinking.around(renderer.render_responses, _prompt_of_response)
    if thinking.markers is not None:
        put_in_front(state, SectionsParser)
    return thinking


class Thinking:
    """Which part of an output the constraint of a request holds for."""

    def __init__(self, renderer: Any, compile_service: CompileService) -> None:
        self._renderer = renderer
        self._compile_service = compile_service
        self._tokenizer = renderer.renderer.get_tokenizer()
        self._parser: type[Parser] | None = renderer.parser
        self.markers = None
        if self._parser is not None and not renderer.use_harmony:
            self.markers = markers_of(self._parser, self._tokenizer, renderer.model_config)
        named = self._tokenizer.get_added_vocab()
        self._boundaries = frozenset(named[name] for name in named if name not in (self.markers or ()))
        self._decode = partial(self._tokenizer.decode, skip_special_tokens=False)
        self._usual: list[Sections] | None = None

    async def forms(self, answer: Constraint) -> list[Constraint]:
        """What chat outputs with this answer obey besides the constraint itself: how the template ends a prompt decides it, with thinking
        as it is by default, switched on and switched off.

        Raises:
            ConstraintError: a marker is too long.
        """
        if self.markers is None or "after" in answer.options:
            return []
        if self._usual is None:
            found = [await self._sections_of_a_chat(options) for options in _SWITCHES]
            self._usual = list(dict.fromkeys(sections for sections in found if sections is not None))
        forms = (sections.constraint(answer) for sections in self._usual)
        return [form for form in forms if form != answer]

    async def _sections_of_a_chat(self, options: dict[str, Any] | None) -> Sections | None:
        """Of a chat of one message; None where the template does not take it, and so most likely takes no such option."""
        messages = [{"role": "user", "content": "?"}]
        request = ChatCompletionRequest(messages=messages, chat_template_kwargs=options)
        try:
            rendered = await self._renderer.render_chat(request)
        except (ValueError, TemplateError) as error:
            logger.warning("no constraint is warmed for chats with %s: %s", options or "the template's defaults", error)
            return None
        return None if isinstance(rendered, ErrorResponse) else self._sections(request, _prompt_of_chat(rendered))

    def around(self, render: Render, prompt_of: Callable[[Any], Sequence[int]]) -> Render:
        """`render`, with the request's constraint made ready for the prompt."""

        async def rendered_first(request: Any, **options: Any) -> Any:
            pending = self._at_hand()
            rendered = await render(request, **options)
            if pending is not None and not isinstance(rendered, ErrorResponse):
                await self._prepare(pending, request, prompt_of(rendered))
            return rendered

        return rendered_first

    def _at_hand(self) -> Pending | None:
        """The constraint of the request at hand, if it is known where its answer begins, or will be.

        Raises:
            RequestRefused: nobody knows where thinking ends.
        """
        pending = pending_constraint.get()
        if not isinstance(pending, Pending):
            return None
        if self.markers is not None:
            return pending
        # The request says where the answer begins, or it is free text with calls in it, and thinking is free text too.
        if "after" in pending.compiled.constraint.options or pending.may_be_cut:
            return None
        raise _unknown_format(pending.field)

    async def _prepare(self, pending: Pending, request: Any, prompt: Sequence[int]) -> None:
        answer = pending.compiled.constraint
        named = answer.options.get("after")
        if named is not None:
            assert self.markers is not None
            pending.sections = Sections(self.markers[0], named, Beginning.THINKING)
            request.skip_special_tokens = False
            return
        pending.sections = self._sections(request, prompt)
        constraint = pending.sections.constraint(answer)
        if constraint == answer:
            return
        self._refuse_markers_that_stop(request, pending.field)
        request.skip_special_tokens = (
            False  # the markers have to be in the text; the answer has no other special tokens
        )
        seen = current.get()
        before = None if seen is None else seen.obtained
        try:
            pending.compiled = await self._compile_service.compile(constraint, pending.caller)
            pending.fewest_tokens = (
                await pending.compiled.fewest_tokens(pending.caller) if pending.options.fit_budget else None
            )
        except ConstraintError as error:
            raise from_constraint_error(error, pending.field) from error
        except Overloaded as error:
            raise overloaded(error) from error
        if seen is not None and seen.obtained is not None and before is not None:  # it is one constraint to the client
            seen.obtained = replace(seen.obtained, begin=before.begin, digest=before.digest)

    def _sections(self, request: Any, prompt: Sequence[int]) -> Sections:
        assert self.markers is not None and self._parser is not None
        start, end = self.markers
        template_options = self._renderer.effective_chat_template_kwargs(request)
        wanted = not (
            template_options.get("continue_final_message")
            or switched_off(self._parser, self._tokenizer, template_options)
        )
        found = beginning_after(prompt, start, end, decode=self._decode, boundaries=self._boundaries, wanted=wanted)
        return Sections(start, end, found)

    def _refuse_markers_that_stop(self, request: Any, field: str) -> None:
        vocabulary = self._tokenizer.get_vocab()
        for marker in self.markers or ():
            if vocabulary.get(marker) in (getattr(request, "stop_token_ids", None) or ()):
                message = f"stop_token_ids beside {field}: {marker} would end the output before its answer"
                raise RequestRefused(message, "not_enforced", "stop_token_ids")


def _prompt_of_chat(rendered: Any) -> Sequence[int]:
    return rendered[1][0].get("prompt_token_ids") or ()


def _prompt_of_response(rendered: Any) -> Sequence[int]:
    return rendered.engine_input.get("prompt_token_ids") or ()


def _unknown_format(field: str) -> RequestRefused:
    message = (
        f"{field} is not enforced beside this server's reasoning parser, whose format does not say where thinking ends; "
        'with "guided_options": {"after": MARKER} the constraint holds after the marker'
    )
    return RequestRefused(message, "not_enforced", field)

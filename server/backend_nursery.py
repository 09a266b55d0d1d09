"""In: constraints for vLLM's own backends; out: whether those take them, in vLLM's words. Knows no engine.

`python -m server.backend_nursery FD`: as `guided.workers.nursery`, with vLLM in place of the compiler. What its backends read a constraint
with is native code that may hold the interpreter's lock, or end the process: here that is a worker, and another is forked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

from guided.errors import InvalidConstraint, LimitExceeded
from guided.workers.messages import Message, from_error
from guided.workers.nursery import serve


def main() -> None:
    serve(lambda settings: Validation(**settings["model"]))


class Validation:
    """The jobs of the workers: what vLLM does with a constraint before the engine sees it."""

    def __init__(self, tokenizer: dict[str, Any], *, is_diffusion: bool) -> None:
        """
        Args:
            tokenizer: arguments of vLLM's `get_tokenizer`.
        """
        from vllm.sampling_params import SamplingParams, StructuredOutputsParams
        from vllm.tokenizers import cached_get_tokenizer
        from vllm.v1.structured_output import backend_guidance, backend_outlines, backend_xgrammar

        assert backend_guidance and backend_outlines and backend_xgrammar, "imported once, for all that are forked"
        self._params, self._outputs = SamplingParams, StructuredOutputsParams
        self._model = SimpleNamespace(is_diffusion=is_diffusion)
        self._tokenizer = cached_get_tokenizer(tokenizer.pop("tokenizer_name"), **tokenizer)

    def run(self, job: Message) -> Iterator[Message]:
        """One outcome: the fields of StructuredOutputsParams as the engine wants them, or {"refused": error}."""
        try:
            params = self._params(structured_outputs=self._outputs(**job["outputs"]))
            config = SimpleNamespace(backend=job["backend"])
            params._validate_structured_outputs(self._model, config, self._tokenizer)
        except MemoryError:
            message = "it needs more memory than a compilation may take"
            yield {"refused": from_error(LimitExceeded(message, limit="memory_bytes"))}
        except Exception as error:  # noqa: BLE001 - four libraries: what they raise, they raise over the constraint
            message = str(error) or type(error).__name__
            yield {"refused": from_error(InvalidConstraint(message))}
        else:
            yield asdict(params.structured_outputs)

    def cache_use(self) -> Message:
        return {}  # there is no cache


if __name__ == "__main__":
    main()

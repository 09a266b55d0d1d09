"""In: a constraint for one of vLLM's own backends; out: what the engine is to be given, or a refusal. Knows no backend.

vLLM asks its backends on the event loop whether they take a constraint, and that may be seconds of native code in which nothing else
runs. Here a process is asked that may be killed (`server.backend_nursery`), as constraints of this server's own are compiled in some:
with limits of time and memory, and callers in turn. The processes are started by the first request that names a backend.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from vllm.sampling_params import StructuredOutputsParams

from guided.cache import Memory
from guided.errors import ConstraintError, LimitExceeded
from guided.workers import Overloaded, Pool, PoolOptions, Priority
from server.callers import overloaded
from server.errors import RequestRefused
from server.flights import Flights
from server.refusals import Refusals

if TYPE_CHECKING:
    from vllm.config import ModelConfig

    from server.handover import HandedOver

logger = logging.getLogger(__name__)

_NURSERY = "server.backend_nursery"
_REMEMBERED_BYTES = 16 << 20  # of constraints that were taken
_BYTES_OF_CHARACTER = 4

Taken = dict[str, Any]  # the fields of StructuredOutputsParams


class VllmBackends:
    """Asks vLLM's backends for one model."""

    def __init__(self, model: ModelConfig, options: PoolOptions, most_bytes: int) -> None:
        """
        Args:
            options: of the processes; what they say of a cache is of no concern here.
            most_bytes: of a constraint, UTF-8.
        """
        self._options = options
        self._most_bytes = most_bytes
        self._about_model = {
            "is_diffusion": bool(model.is_diffusion),
            "tokenizer": {
                "tokenizer_name": model.tokenizer,
                "runner_type": model.runner_type,
                "tokenizer_mode": model.tokenizer_mode,
                "revision": model.tokenizer_revision,
                "trust_remote_code": model.trust_remote_code,
            },
        }
        self._starting: asyncio.Task[Pool] | None = None
        self._flights: Flights[Taken] = Flights()
        self._taken: Memory[Taken] = Memory(_REMEMBERED_BYTES)
        self._refusals = Refusals()

    async def outputs(self, handed: HandedOver, caller: str) -> StructuredOutputsParams:
        """What the engine is given for a constraint that its backend takes.

        Args:
            caller: whose turn it is where many ask.

        Raises:
            RequestRefused: the backend does not take it, or not within the limits; too many ask (429); none can be asked (503).
        """
        try:
            taken = await self._shared(handed, caller)
        except ConstraintError as error:
            message = f"{handed.field}: vLLM's {handed.backend} backend does not take it: {error.message}"
            raise RequestRefused(message, error.code, handed.field) from error
        except Overloaded as error:
            raise overloaded(error) from error
        except OSError as error:
            logger.error("vLLM's backends cannot be asked: %s", error)
            raise RequestRefused("vLLM's backends cannot be asked at the moment", "unavailable", status=503) from error
        backend, was_auto = taken["_backend"], taken["_backend_was_auto"]
        outputs = StructuredOutputsParams(**{name: value for name, value in taken.items() if not name.startswith("_")})
        outputs._backend, outputs._backend_was_auto = backend, was_auto
        return outputs

    async def _shared(self, handed: HandedOver, caller: str) -> Taken:
        """Asked once for all who send the same."""
        name = f"{handed.backend} {handed.constraint.digest}"
        known = self._taken.get(name)
        if known is not None:
            return known
        size = len(handed.constraint.canonical_text.encode())
        if size > self._most_bytes:
            message = f"{size:,} bytes are more than the {self._most_bytes:,} that may be left to vLLM"
            raise LimitExceeded(message, limit="constraint_bytes")
        self._refusals.raise_known(name)
        taken = await self._flights.share(name, lambda: self._ask(handed, caller))
        self._taken.put(name, taken, _BYTES_OF_CHARACTER * size)
        return taken

    async def _ask(self, handed: HandedOver, caller: str) -> Taken:
        pool = await self._running()
        limits = self._options
        job = {
            "kind": "validate",
            "backend": handed.backend,
            "outputs": handed.in_vllms_words(),
            "seconds": limits.limits.seconds,
            "cpu_seconds": limits.limits.seconds,
            "wall_seconds": limits.wall_seconds,
        }
        try:
            return await pool.run(job, Priority.QUICK, caller)
        except ConstraintError as error:
            self._refusals.remember(f"{handed.backend} {handed.constraint.digest}", error)
            raise

    async def _running(self) -> Pool:
        """The pool, started where it is not. Who leaves in the meantime does not end it. Raises OSError."""
        if self._starting is None or (self._starting.done() and self._starting.exception() is not None):
            self._starting = asyncio.create_task(self._start())
        return await asyncio.shield(self._starting)

    async def _start(self) -> Pool:
        pool = Pool(None, self._options, module=_NURSERY, more={"model": self._about_model})
        await pool.start()
        return pool

    async def close(self) -> None:
        for task in self._flights.tasks:
            task.cancel()
        if self._starting is not None:
            self._starting.cancel()
            found = (await asyncio.gather(self._starting, return_exceptions=True))[0]
            if isinstance(found, Pool):
                await found.close()

"""In: environment, `.env` and what the command line says of the gateway; out: one frozen settings object. Starts nothing.

A setting `name` is the variable GUIDED_NAME, in the environment or in `.env`, or `--guided.name` on the command line, or `name` below
`guided:` in the YAML file of `--config` (`server.command_line`). The command line wins over the file, both over the environment.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from guided.cache import RemoteOptions, Spare
from guided.limits import Limits
from guided.workers import PoolOptions
from server import machine
from server.allowance import Allowance
from server.keys import KeyRing, from_plain, read_text
from server.variables import no_setting, unknown_variables

PREFIX = "GUIDED_"
ELSEWHERE = {"GUIDED_CACHE_DIR"}  # read by the library and the scripts, which know no settings
OTHERS = ("GUIDED_BEDROCK_", "GUIDED_TEST_")  # prefixes of the other gateway's variables and of the tests'


class Settings(BaseSettings):
    """What the gateway itself can be told. Names that begin with GUIDED_ and are unknown are errors; others are not ours."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_file=".env", dotenv_filtering="match_prefix", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _no_unknown_variables(cls, values: Any) -> Any:
        known = {PREFIX + name.upper() for name in cls.model_fields} | ELSEWHERE
        ours = (name for name in os.environ if not name.upper().startswith(OTHERS))
        if unknown := unknown_variables(PREFIX, known, ours):
            raise ValueError("; ".join(unknown))
        return values

    # who may call
    api_keys: SecretStr = Field(
        default=SecretStr(""),
        description="keys of callers, separated by commas: NAME=KEY or NAME=sha256:DIGEST; vLLM's --api-key adds to them",
    )
    admin_keys: SecretStr = Field(
        default=SecretStr(""), description="keys of operators, in the same way: they open metrics and admin routes too"
    )
    api_keys_file: Path | None = Field(
        default=None, description="YAML file of more keys, with limits of their own; read again when it changes"
    )
    open_paths: str = Field(
        default="", description="paths that need no key, separated by commas, such as /metrics,/docs,/openapi.json"
    )
    admin_port: int | None = Field(
        default=None, ge=1, le=65535, description="port of /metrics and of the admin routes, which then are on no other"
    )
    admin_host: str = Field(default="127.0.0.1", description="address that the admin port listens on")

    # how much of it
    requests_per_minute: int | None = Field(
        default=None, ge=1, description="of each key, and of each address where there are no keys"
    )
    concurrent_requests: int | None = Field(
        default=None, ge=1, description="of each key or address that are answered at a time"
    )
    body_bytes: int = Field(default=8 << 20, ge=1024, description="size of one request")
    body_seconds: float = Field(default=60.0, gt=0, description="until the whole of a request has to be there")
    body_nesting: int = Field(
        default=512, ge=16, le=900, description="levels of arrays and objects in the JSON of a request"
    )
    body_values: int = Field(
        default=250_000,
        ge=1000,
        description="numbers, strings, arrays and objects in it: what is read holds up the others",
    )

    # what is told
    log_format: Literal["text", "json"] = Field(
        default="text", description="of the logs; json: one object a line, with request id and caller"
    )

    measured_every: int = Field(
        default=16,
        ge=0,
        description="of so many constrained answers one is measured for the metrics of pressure, beside those with a report; 0: none is",
    )

    # one constraint
    constraint_bytes: int = Field(default=2 << 20, ge=1, description="size of one constraint, UTF-8")
    max_states: int = Field(default=250_000, ge=1, description="automaton states of one constraint")
    index_bytes: int = Field(default=512 << 20, ge=1, description="memory of one index")
    compile_seconds: float = Field(default=10.0, gt=0, description="CPU time that one compilation may take")
    compile_wall_seconds: float = Field(default=30.0, gt=0, description="wall time after which it is killed")
    compile_memory_bytes: int = Field(default=1 << 30, ge=64 << 20, description="memory that one compilation may take")
    close_seconds: float = Field(
        default=0.1, ge=0, description="CPU time that a request waits for its index to be whole"
    )

    # all of them
    compile_workers: int = Field(
        default_factory=lambda given: _workers(given.get("compile_memory_bytes", 1)),
        ge=2,
        description="processes that compile; half of them take short work only. Where it is unset: one for 4 CPUs, no more than fit into a "
        "quarter of the memory, at least 2; of the container, if there is one",
    )
    compile_queue: int = Field(
        default=512,
        ge=1,
        description="compilations that may wait; beyond it, and for one API key beyond half of it, the answer is 429",
    )
    compile_queue_seconds: float = Field(default=30.0, gt=0, description="how long they may wait")
    compile_nice: int = Field(
        default=15,
        ge=0,
        le=20,
        description="the processes run when nothing else wants the CPU; where that leaves short work without one, those for it have this "
        "niceness for a minute. 20: they stay as they are; 0: none of them gives way",
    )

    # where indexes are kept
    memory_cache_bytes: int = Field(default=1 << 30, ge=0, description="closed indexes that the gateway maps")
    disk_cache_bytes: int = Field(
        default=4 << 30, ge=0, description="index files in $GUIDED_CACHE_DIR/indexes; 0: none are written there"
    )
    spare_cache_bytes: int = Field(
        default=256 << 20,
        ge=0,
        description="index files in memory that the disk does not take: in /dev/shm, or where temporary files go if that has more room, "
        "and no more than a quarter of what is free there; 0: such constraints are refused",
    )
    redis_url: str | None = Field(
        default=None,
        description="a Redis or Valkey that replicas share their indexes through: redis://, rediss:// (TLS) or unix://",
    )
    redis_password: SecretStr | None = Field(default=None, description="where it is not part of the address")
    redis_ca_file: Path | None = Field(default=None, description="authority of the server's certificate")
    redis_key: SecretStr = Field(
        default=SecretStr(""),
        description="signs what replicas share; the same for all of them: values that were written without it are ignored",
    )
    redis_timeout_ms: int = Field(
        default=50, ge=1, description="of connecting, and of each read and write; a slower server is a miss"
    )
    redis_ttl_seconds: int = Field(default=7 * 86_400, ge=1, description="life of an index that nobody writes again")

    # what is left to vLLM
    engine_stall_seconds: float = Field(
        default=300.0,
        gt=0,
        description="an engine that has requests and makes no step for so long hangs: `/health` and `/ready` answer 503",
    )
    vllm_backends: bool = Field(
        default=True, description="may a request name one of vLLM's own backends, in `guided_decoding_backend`?"
    )
    vllm_backend_bytes: int = Field(
        default=128 << 10, ge=1, description="size of a constraint for them, which they read without limits of states"
    )

    # before the server is ready
    warm: str = Field(
        default="", description="files and folders of constraints, separated by colons, that are compiled first"
    )

    @property
    def limits(self) -> Limits:
        return Limits(
            constraint_bytes=self.constraint_bytes,
            states=self.max_states,
            seconds=self.compile_seconds,
            memory_bytes=self.index_bytes,
        )

    @property
    def allowance(self) -> Allowance:
        return Allowance(self.requests_per_minute, self.concurrent_requests)

    def key_ring(self, of_vllm: Iterable[str]) -> KeyRing:
        """All API keys.

        Args:
            of_vllm: those of vLLM's own flag or variable.

        Raises:
            KeysWrong, OSError.
        """
        keys = read_text(self.api_keys.get_secret_value(), "api-key")
        operators = read_text(self.admin_keys.get_secret_value(), "admin-key", admin=True)
        return KeyRing([*keys, *operators, *from_plain(of_vllm)], self.api_keys_file)

    @property
    def paths_without_key(self) -> frozenset[str]:
        return frozenset(path.strip() for path in self.open_paths.split(",") if path.strip())

    @property
    def warm_paths(self) -> list[Path]:
        return [Path(name).expanduser() for name in self.warm.split(":") if name]

    def pool_options(self, folder: Path, spare: Spare | None = None) -> PoolOptions:
        """The worker processes, whose indexes go to `folder`, or to `spare` where that does not take them."""
        return PoolOptions(
            folder=folder,
            workers=self.compile_workers,
            queued=self.compile_queue,
            patience_seconds=self.compile_queue_seconds,
            limits=self.limits,
            wall_seconds=self.compile_wall_seconds,
            memory_bytes=self.compile_memory_bytes,
            nice=self.compile_nice,
            disk_bytes=self.disk_cache_bytes,
            spare=spare,
            remote=self.remote,
        )

    @property
    def remote(self) -> RemoteOptions | None:
        """What replicas and ranks on other hosts share indexes through; None: nothing."""
        if self.redis_url is None:
            return None
        return RemoteOptions(
            url=self.redis_url,
            password=None if self.redis_password is None else self.redis_password.get_secret_value(),
            ca_file=None if self.redis_ca_file is None else str(self.redis_ca_file),
            key=self.redis_key.get_secret_value(),
            timeout_seconds=self.redis_timeout_ms / 1000,
            ttl_seconds=self.redis_ttl_seconds,
        )


def _workers(memory_bytes: int) -> int:
    """As many as there is room for beside an engine. `memory_bytes`: of each."""
    return max(2, min(machine.cpus() // 4, machine.memory_bytes() // 4 // memory_bytes))


def read_settings(given: Mapping[str, Any]) -> Settings:
    """The settings, those that are given on the command line or in its file over those of the environment.

    Raises:
        ValueError: one line that names what is wrong, without its value, which may be a secret.
    """
    named = {name.replace("-", "_").lower(): value for name, value in given.items()}
    try:
        return Settings(**named)
    except ValidationError as error:
        raise ValueError("; ".join(_wrong(found, named) for found in error.errors())) from None


def _wrong(found: Any, given: Collection[str]) -> str:
    message = found["msg"].removeprefix("Value error, ")
    if not found["loc"]:
        return message
    name = str(found["loc"][0])
    place = f"--guided.{name}" if name in given else PREFIX + name.upper()
    if found["type"] == "extra_forbidden":
        return no_setting(place, name, Settings.model_fields)
    return f"{place}: {message}"


def set_environment() -> None:
    """Defaults for vLLM that only the environment can give; has to run before vLLM is imported."""
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB; read by the CPU build only
    os.environ.setdefault("VLLM_USE_V2_MODEL_RUNNER", "0")  # under the V1 runner answers that were broken off go on

"""In: environment, `.env` and command line; out: one frozen settings object and vLLM's own arguments. Starts nothing.

The command line is vLLM's: every flag of its server passes through unchanged. The settings here are what vLLM does not know,
and come from variables that begin with GUIDED_.
"""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from guided.cache import RemoteOptions
from guided.limits import Limits
from guided.workers import PoolOptions

CPU_FLAGS = ["--dtype", "float32", "--enforce-eager", "--max-model-len", "4096", "--max-num-seqs", "16"]


class Settings(BaseSettings):
    """What the gateway itself can be told. Unknown GUIDED_ variables in `.env` are errors; others there are not ours."""

    model_config = SettingsConfigDict(
        env_prefix="GUIDED_", env_file=".env", dotenv_filtering="match_prefix", frozen=True
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
        default_factory=lambda: max(2, (os.cpu_count() or 2) // 4), ge=2, description="processes"
    )
    compile_queue: int = Field(default=512, ge=1, description="compilations that may wait")
    compile_queue_seconds: float = Field(default=30.0, gt=0, description="how long they may wait")
    compile_nice: int = Field(default=15, ge=0, le=19, description="niceness of the processes for short compilations")

    # where indexes are kept
    memory_cache_bytes: int = Field(default=1 << 30, ge=0, description="closed indexes mapped by this process")
    disk_cache_bytes: int = Field(default=4 << 30, ge=0, description="index files in $GUIDED_CACHE_DIR/indexes")
    redis_url: str | None = Field(default=None, description="redis://, rediss:// or unix://; unset: no remote cache")
    redis_password: SecretStr | None = Field(default=None, description="where it is not part of the address")
    redis_ca_file: Path | None = Field(default=None, description="authority of the server's certificate")
    redis_key: SecretStr = Field(
        default=SecretStr(""), description="signs what replicas share; the same for all of them"
    )
    redis_timeout_ms: int = Field(default=50, ge=1, description="of connecting, and of each read and write")
    redis_ttl_seconds: int = Field(default=7 * 86_400, ge=1, description="life of an index that nobody writes again")

    # before the server is ready
    warm: str = Field(default="", description="files and folders of constraints, separated by colons")

    @property
    def limits(self) -> Limits:
        return Limits(
            constraint_bytes=self.constraint_bytes,
            states=self.max_states,
            seconds=self.compile_seconds,
            memory_bytes=self.index_bytes,
        )

    @property
    def warm_paths(self) -> list[Path]:
        return [Path(name).expanduser() for name in self.warm.split(":") if name]

    def pool_options(self, folder: Path) -> PoolOptions:
        """The worker processes, whose indexes go to `folder`."""
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
            remote=self._remote(),
        )

    def _remote(self) -> RemoteOptions | None:
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


def set_environment() -> None:
    """Defaults for vLLM that only the environment can give; has to run before vLLM is imported."""
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB; read by the CPU build only
    os.environ.setdefault("VLLM_USE_V2_MODEL_RUNNER", "0")  # our processor speaks the V1 interface


def parse_arguments(arguments: list[str]) -> Namespace:
    """vLLM's parsed server arguments, with our defaults under what the caller gives."""
    from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
    from vllm.platforms import current_platform
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = make_arg_parser(
        FlexibleArgumentParser(prog="guided-server", description="OpenAI-compatible guided decoding")
    )
    defaults = ["--host", "127.0.0.1", *(CPU_FLAGS if current_platform.is_cpu() else [])]
    parsed = parser.parse_args([*defaults, *arguments])
    if parsed.model_tag:
        parsed.model = parsed.model_tag
    if parsed.served_model_name is None and Path(parsed.model).is_dir():
        parsed.served_model_name = [Path(parsed.model).resolve().name]
    validate_parsed_serve_args(parsed)
    return parsed

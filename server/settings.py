"""In: environment, `.env` and command line; out: one frozen settings object and vLLM's own arguments. Starts nothing.

The command line is vLLM's: every flag of its server passes through unchanged. The settings here are what vLLM does not know,
and come from variables that begin with GUIDED_.
"""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from guided.limits import Limits

CPU_FLAGS = ["--dtype", "float32", "--enforce-eager", "--max-model-len", "4096", "--max-num-seqs", "16"]


class Settings(BaseSettings):
    """What the gateway itself can be told. Unknown GUIDED_ variables in `.env` are errors; others there are not ours."""

    model_config = SettingsConfigDict(
        env_prefix="GUIDED_", env_file=".env", dotenv_filtering="match_prefix", frozen=True
    )

    index_cache_size: int = Field(default=256, ge=1, description="compiled constraints kept in memory")
    compile_seconds: float = Field(default=10.0, gt=0, description="wall time that one compilation may take")
    constraint_bytes: int = Field(default=2 << 20, ge=1, description="size of one constraint, UTF-8")
    max_states: int = Field(default=250_000, ge=1, description="automaton states of one constraint")
    index_bytes: int = Field(default=512 << 20, ge=1, description="memory of one index")

    @property
    def limits(self) -> Limits:
        return Limits(
            constraint_bytes=self.constraint_bytes,
            states=self.max_states,
            seconds=self.compile_seconds,
            memory_bytes=self.index_bytes,
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

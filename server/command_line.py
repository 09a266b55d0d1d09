"""In: the command line of `guided-server`; out: vLLM's own arguments and what it says of the gateway's settings. Starts nothing.

The command line is vLLM's: every flag of its server passes through, and so does its YAML file (`--config`). One flag is ours,
`--guided.NAME VALUE`: JSON in vLLM's spelling for nested options, in the file a mapping below `guided:`.
"""

from __future__ import annotations

import argparse
import json
import os
from argparse import Namespace
from importlib.metadata import version
from pathlib import Path
from typing import Any

DEFAULTS = {"host": "127.0.0.1", "shutdown_timeout": 30, "enable_offline_docs": True}
CPU_DEFAULTS = {"dtype": "float32", "enforce_eager": True, "max_model_len": 4096, "max_num_seqs": 16}


class _Merged(argparse.Action):
    """Joins what several places say: the file first, the command line over it."""

    def __call__(self, parser: Any, namespace: Namespace, values: Any, option_string: str | None = None) -> None:
        if not isinstance(values, dict):
            parser.error(f"{option_string}: {option_string}.NAME VALUE, or a JSON object")
        setattr(namespace, self.dest, {**getattr(namespace, self.dest), **values})


def parse_arguments(arguments: list[str]) -> tuple[Namespace, dict[str, Any]]:
    """vLLM's parsed server arguments, with our defaults under what the caller gives; and the settings among them.

    vLLM has to be importable, so `set_environment` comes first.
    """
    from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
    from vllm.platforms import current_platform
    from vllm.utils.argparse_utils import FlexibleArgumentParser
    from vllm.version import __version__ as VLLM_VERSION

    parser = make_arg_parser(
        FlexibleArgumentParser(prog="guided-server", description="OpenAI-compatible guided decoding")
    )
    parser.add_argument(
        "--guided",
        type=json.loads,
        action=_Merged,
        default={},
        help="settings of the gateway, as --guided.NAME VALUE; docs/settings.md lists them",
    )
    versions = f"guided-server {version('guided-server')}, vLLM {VLLM_VERSION}"
    parser.add_argument("--version", action="version", version=versions)
    parser.set_defaults(**DEFAULTS, **(CPU_DEFAULTS if current_platform.is_cpu() else {}))
    parsed = parser.parse_args(arguments)
    if parsed.model_tag:
        parsed.model = parsed.model_tag
    if parsed.served_model_name is None and Path(parsed.model).is_dir():
        parsed.served_model_name = [Path(parsed.model).resolve().name]
    _refuse_other_servers(parser, parsed)
    try:
        validate_parsed_serve_args(parsed)
    except (TypeError, ValueError) as error:
        parser.error(str(error).removeprefix("Error: "))
    given = vars(parsed).pop("guided")
    return parsed, given


def _refuse_other_servers(parser: argparse.ArgumentParser, args: Namespace) -> None:
    """vLLM's ways to serve that are not ours: they would be without constraints, or are not there."""
    for flag, given in (
        ("--grpc", args.grpc),
        ("--grpc-port", args.grpc_port is not None),
        ("--api-server-count", not args.headless and args.api_server_count not in (None, 1)),
        ("--data-parallel-multi-port-external-lb", args.data_parallel_multi_port_external_lb),
    ):
        if given:
            parser.error(f"{flag}: guided-server is one process that speaks HTTP")


def take_keys(args: Namespace) -> list[str]:
    """The API keys of vLLM's flag, else of its variable; they are taken out of `args`, which others log."""
    keys = args.api_key or [os.environ.get("VLLM_API_KEY", "")]
    args.api_key = None
    return [key for key in keys if key]

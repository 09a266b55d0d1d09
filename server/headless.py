"""In: vLLM's arguments of a node that serves no HTTP; out: its ranks of an engine whose API is on another node. Knows no constraint.

One model over several nodes: the first runs the server with `--nnodes N --node-rank 0 --master-addr ADDRESS`, each of the others
the same arguments with its own rank and `--headless`. Constraints travel with each request to every rank, as they do on one node.
"""

from __future__ import annotations

from argparse import Namespace

from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.cli.serve import run_headless
from vllm.usage.usage_lib import UsageContext

from guided.vllm_adapters.select import let_drafts_choose, processor_name


def run_ranks(args: Namespace) -> None:
    """Returns when the engine ends. The first node's processors have to be here too: each rank masks its own logits."""
    engine_args = AsyncEngineArgs.from_cli_args(args)
    let_drafts_choose(engine_args)
    config = engine_args.create_engine_config(usage_context=UsageContext.OPENAI_API_SERVER, headless=True)
    args.logits_processors = [*(args.logits_processors or []), processor_name(config)]
    args.api_server_count = 0  # as `vllm serve --headless` says it
    run_headless(args)

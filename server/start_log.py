"""In: what vLLM and torch say while a server starts on CPUs; out: the same without what follows from that alone. Knows no request.

A start there says twice that CUDA graphs and Triton are missing, which nobody can change, between the lines that matter. Who asks for a log
level, a format or a configuration of logs gets all of it (`--log-level INFO`, `VLLM_LOGGING_LEVEL`).
"""

from __future__ import annotations

import logging
import os
import sys
from argparse import Namespace
from pathlib import Path

CONFIGURATION = Path(__file__).with_name("vllm_log.json")  # read by vLLM in each of its processes
EXPECTED = {  # logger -> how its warnings begin
    "vllm.config.vllm": ("Enforce eager set, disabling", "Inductor compilation was disabled"),
    "vllm.platforms.cpu": ("Triton is not installed",),
    "uvicorn.error": ("Started server process", "Waiting for application startup", "Application startup complete"),
}
_ENVIRONMENT = {
    "VLLM_LOGGING_CONFIG_PATH": str(CONFIGURATION),
    "TORCH_CPP_LOG_LEVEL": "ERROR",  # on CPUs torch warns of how memory was bound, as it was told to
    "TORCH_LOGS": "-torch._library.triton",  # that there is no Triton
    "PYTHONWARNINGS": "ignore::FutureWarning",  # for the programmers of vLLM
}


class WithoutExpected(logging.Filter):
    """Lets everything pass but what is expected, and all errors."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno > logging.WARNING or not record.getMessage().startswith(
            EXPECTED.get(record.name, ("\0",))
        )


def leave_out_expected(args: Namespace) -> None:
    """Sets vLLM's arguments and, for its processes, the environment. To be called before either is used, after vLLM is imported.

    Does nothing where the engine is not on CPUs, or where somebody has said what is to be logged.
    """
    from vllm.config.logging import LoggingConfig
    from vllm.platforms import current_platform

    said = any(getattr(args, name, None) for name in ("log_level", "log_config_file", "logging_config"))
    if said or "VLLM_LOGGING_CONFIG_PATH" in os.environ or os.environ.get("VLLM_LOGGING_LEVEL") != "WARNING":
        return
    if not current_platform.is_cpu():
        return
    args.logging_config = LoggingConfig(pylogging_config_file=str(CONFIGURATION))
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    for name in EXPECTED:
        logging.getLogger(name).addFilter(WithoutExpected())
    args.use_tqdm_on_load = args.use_tqdm_on_load and sys.stderr.isatty()
    logging.getLogger("torch._library.triton").setLevel(logging.ERROR)


def for_uvicorn(args: Namespace) -> Namespace:
    """The arguments that uvicorn's configuration is made of: in our file are none of its loggers."""
    config = getattr(args, "logging_config", None)
    if config is None or config.pylogging_config_file != str(CONFIGURATION):
        return args
    return Namespace(**{**vars(args), "logging_config": None, "log_config_file": None})

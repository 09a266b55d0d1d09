"""In: records of all loggers; out: lines of text or JSON with the id of the request, its caller and its error. Logs nothing itself.

What requests say is never logged here; vLLM logs it where it is told to (`--enable-log-requests`).
"""

from __future__ import annotations

import copy
import logging
import logging.config
import time
from argparse import Namespace
from contextvars import ContextVar
from typing import Any

from pythonjsonlogger.json import JsonFormatter

from server.errors import RequestRefused
from server.start_log import leave_out_expected

request_id: ContextVar[str] = ContextVar("request_id", default="-")
caller_name: ContextVar[str] = ContextVar("caller_name", default="-")
error_code: ContextVar[str] = ContextVar("error_code", default="-")

_OURS = ("server", "guided", "guided-server")
_FOREIGN = ("vllm", "uvicorn", "uvicorn.access", "uvicorn.error")
_OF_REQUESTS = (  # loggers of vLLM that tell of every exception
    "vllm.entrypoints.anthropic.api_router",
    "vllm.entrypoints.anthropic.serving",
    "vllm.entrypoints.openai.chat_completion.serving",
    "vllm.entrypoints.openai.completion.serving",
)
_TEXT = "%(levelname)s %(asctime)s [%(name)s] %(message)s [%(request_id)s %(caller)s]"
# The names are those of vLLM's own JSON, which the engine's processes write.
_JSON = "%(asctime)s %(levelname)s %(name)s %(processName)s %(process)d %(request_id)s %(caller)s %(code)s %(message)s"


class Progress:
    """Tells the long steps of the start with the seconds since `started` (time.monotonic())."""

    def __init__(self, started: float) -> None:
        self.started = started

    def say(self, message: str) -> None:
        logging.getLogger("guided-server").info("[%5.1f s] %s", time.monotonic() - self.started, message)


class WithoutRefusals(logging.Filter):
    """Drops what vLLM says, with a traceback, of requests that it refuses: the client is told, and the message may quote the request."""

    def filter(self, record: logging.LogRecord) -> bool:
        from vllm.exceptions import VLLMClientError

        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        return not isinstance(error, VLLMClientError | RequestRefused)


class WithRequest(logging.Filter):
    """Adds `request_id`, `caller` and `code`, that of its error, to every record; "-" where there is none."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id, record.caller, record.code = request_id.get(), caller_name.get(), error_code.get()
        return True


def configure(log_format: str) -> None:
    """Sets up the loggers of this project and, for JSON, those of vLLM and uvicorn in this process."""
    as_json = log_format == "json"
    loggers = [*_OURS, *(_FOREIGN if as_json else ())]
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "filters": {"request": {"()": WithRequest}},
            "formatters": {
                "text": {"format": _TEXT, "datefmt": "%m-%d %H:%M:%S"},
                "progress": {"format": "%(name)s: %(message)s"},
                "json": {"()": JsonFormatter, "fmt": _JSON},
            },
            "handlers": {
                name: {"class": "logging.StreamHandler", "formatter": name, "filters": ["request"]}
                for name in ("text", "progress", "json")
            },
            "loggers": {name: _logger(name, as_json) for name in loggers},
        }
    )


def _logger(name: str, as_json: bool) -> dict[str, Any]:
    handler = "json" if as_json else "progress" if name == "guided-server" else "text"
    level = {} if name in _FOREIGN else {"level": "INFO"}
    return {"handlers": [handler], "propagate": False, **level}


def configure_vllm(args: Namespace, log_format: str) -> None:
    """Applies vLLM's own flags of logging, to this process and those of the engine, with our format under them."""
    from vllm.config.logging import LoggingConfig
    from vllm.logger import configure_logging_from_args
    from vllm.logging_utils.uvicorn_logging import UvicornAccessLogFilter

    if log_format != "json":
        leave_out_expected(args)
    elif getattr(args, "logging_config", None) is None:
        args.logging_config = LoggingConfig(formatter="json")
    configure_logging_from_args(args)
    configure(log_format)  # over what that made of vLLM's logger
    for name in _OF_REQUESTS:
        logging.getLogger(name).addFilter(WithoutRefusals())
    hidden = [path.strip() for path in (args.disable_access_log_for_endpoints or "").split(",") if path.strip()]
    if log_format == "json" and hidden:  # for text it is in the configuration that uvicorn gets
        logging.getLogger("uvicorn.access").addFilter(UvicornAccessLogFilter(hidden))


def of_uvicorn(log_format: str, config: dict[str, Any] | None) -> dict[str, Any] | None:
    """What uvicorn is to make of its loggers: nothing for JSON, which `configure` did; else its own with what `WithRequest` adds.

    Args:
        config: that of vLLM's flags, or uvicorn's.
    """
    if log_format == "json" or config is None:
        return None
    config = copy.deepcopy(config)
    config.setdefault("filters", {})["request"] = {"()": WithRequest}
    access = config.get("handlers", {}).get("access")
    formatter = config.get("formatters", {}).get("access", {})
    if access is not None and "fmt" in formatter:
        access["filters"] = [*access.get("filters", []), "request"]
        formatter["fmt"] += " [%(request_id)s %(caller)s %(code)s]"
    return config

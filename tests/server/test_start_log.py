"""The log of a start leaves out what follows from having no GPU, and nothing else; who asks for a log gets all of it."""

from __future__ import annotations

import json
import logging
import logging.config
import os
from argparse import Namespace

import pytest
from vllm.entrypoints.launchers.utils.server_utils import get_uvicorn_log_config

from server import start_log
from server.start_log import CONFIGURATION, EXPECTED, WithoutExpected, for_uvicorn, leave_out_expected

EAGER = "Enforce eager set, disabling torch.compile, CUDAGraphs, and JIT kernel warmup. This is equivalent to ..."


def passes(name: str, level: int, message: str, *args: object) -> bool:
    return bool(WithoutExpected().filter(logging.LogRecord(name, level, "", 0, message, args, None)))


@pytest.mark.parametrize(
    ("name", "level", "message", "passed"),
    [
        ("vllm.config.vllm", logging.WARNING, EAGER, False),
        ("vllm.config.vllm", logging.ERROR, EAGER, True),
        ("vllm.config.vllm", logging.WARNING, "Something else", True),
        ("vllm.engine", logging.WARNING, EAGER, True),
        ("uvicorn.error", logging.INFO, "Application startup complete.", False),
        ("uvicorn.error", logging.INFO, "Shutting down", True),
        ("server", logging.WARNING, "", True),
    ],
)
def test_only_what_is_expected_is_left_out(name, level, message, passed):
    assert passes(name, level, message) == passed


@pytest.fixture
def environment(monkeypatch):
    for name in start_log._ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "WARNING")
    before = dict(os.environ)
    yield monkeypatch
    for name in EXPECTED:
        logging.getLogger(name).filters.clear()
    for name in os.environ.keys() - before.keys():
        del os.environ[name]


def test_vllm_is_told_in_each_of_its_processes(environment):
    args = Namespace(use_tqdm_on_load=True, disable_access_log_for_endpoints=None)
    leave_out_expected(args)
    assert args.logging_config.pylogging_config_file == os.environ["VLLM_LOGGING_CONFIG_PATH"] == str(CONFIGURATION)
    assert get_uvicorn_log_config(for_uvicorn(args)) is None, "its loggers are not in that file"
    assert all(logging.getLogger(name).filters for name in EXPECTED)
    found = json.loads(CONFIGURATION.read_text())
    assert found["handlers"]["vllm"]["filters"] == ["expected"]
    logging.config.dictConfig({**found, "loggers": {}})  # its classes are there


@pytest.mark.parametrize(
    "said", [{"log_level": "WARNING"}, {"log_config_file": "mine.json"}, {"logging_config": object()}], ids=str
)
def test_who_says_what_is_logged_gets_all_of_it(environment, said):
    args = Namespace(use_tqdm_on_load=True, **said)
    leave_out_expected(args)
    assert vars(args) == {"use_tqdm_on_load": True, **said} and "TORCH_LOGS" not in os.environ
    if "logging_config" not in said:
        assert for_uvicorn(args) is args


@pytest.mark.parametrize(("name", "value"), [("VLLM_LOGGING_LEVEL", "INFO"), ("VLLM_LOGGING_CONFIG_PATH", "mine.json")])
def test_in_the_environment_too(environment, name, value):
    environment.setenv(name, value)
    args = Namespace(use_tqdm_on_load=True)
    leave_out_expected(args)
    assert vars(args) == {"use_tqdm_on_load": True} and "TORCH_LOGS" not in os.environ

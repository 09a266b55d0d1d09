"""What a person who starts the server reads when it cannot start: one line, not a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from guided.cache import RemoteOptions
from server.cli import _share_indexes, main
from server.settings import Settings


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("GUIDED_MAX_STATES", "many", "valid integer"),
        ("GUIDED_COMPILE_SECONDS", "0", "greater than 0"),
        ("GUIDED_COMPILE_SECS", "3", "is it GUIDED_COMPILE_SECONDS"),
    ],
)
def test_a_bad_setting_is_named_at_once(monkeypatch, tmp_path, name, value, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["guided-server", "--model", "no such model"])
    monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit, match=f"guided-server: {name}.*{said}"):
        main()


@pytest.mark.parametrize(
    ("hosts", "redis", "said"), [(2, None, True), (1, None, False), (2, "redis://elsewhere", False)]
)
def test_hosts_that_share_nothing_are_warned_of(monkeypatch, caplog, hosts, redis, said):
    monkeypatch.setenv("_GUIDED_REMOTE_CACHE", "")
    _share_indexes(Settings(redis_url=redis), hosts)
    assert ("no GUIDED_REDIS_URL" in caplog.text) is said
    left = RemoteOptions.left()
    assert (left and left.url) == redis


STARTING = """
import subprocess, sys, time, server.cli
def start(progress):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    print(child.pid, flush=True)
    time.sleep(60)
server.cli._serve = start
server.cli.main()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_server_that_is_starting(number):
    """By a handler: the system has none for the first process of a container, which would go on starting. So would the engine's."""
    with subprocess.Popen([sys.executable, "-c", STARTING], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        child = psutil.Process(int(process.stdout.readline()))
        process.send_signal(number)
        assert process.wait(30) == 128 + number
        assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


SPAWNING = """
import multiprocessing, signal, server.cli
def tell():
    print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()), flush=True)
if __name__ == "__main__":
    tell()
    child = multiprocessing.get_context("spawn").Process(target=tell)
    child.start()
    child.join()
"""


def test_the_terminals_keys_are_not_for_the_engines_processes(tmp_path):
    (tmp_path / "main.py").write_text(SPAWNING)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    told = subprocess.run([sys.executable, tmp_path / "main.py"], capture_output=True, text=True, env=environment)
    assert told.stdout.split() == ["False", "True"], told.stderr

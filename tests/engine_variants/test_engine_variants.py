"""Engines that are started in another way: two ranks that share a model, then adapters, with the indexes of before; and one that dies."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from tests.engine.test_safety import metric, post, until
from tests.engine_variants.small_model import adapter, small_model
from tests.live_server import LiveServer

pytestmark = pytest.mark.engine

FLAGS = ["--load-format", "dummy", "--max-model-len", "4096"]
LONG = {"prompt": "x", "ignore_eos": True, "max_tokens": 3000}
COMPILED_IN_ENGINE = "it is compiled in the engine"


@pytest.fixture(scope="module")
def model(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(model_folder, tmp_path_factory.mktemp("variants") / "small")


@pytest.fixture(scope="module")
def pattern() -> str:
    """Nobody has compiled this one before."""
    return rf"{uuid4().hex}: [a-z]{{3}}(, [a-z]{{3}}){{2,9}}"


def answers(server: LiveServer, model: str, pattern: str) -> list[tuple[str, list[float]]]:
    """Text and log probabilities of eight answers at once."""

    def ask(seed: int) -> tuple[str, list[float]]:
        made = server.client.completions.create(
            model=model,
            prompt="x",
            temperature=1.0,
            seed=seed,
            max_tokens=90,
            logprobs=0,
            extra_body={"guided_regex": pattern},
        )
        assert made.choices[0].finish_reason == "stop"
        return made.choices[0].text, made.choices[0].logprobs.token_logprobs

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(ask, range(8)))


def compilations(server: LiveServer) -> float:
    text = httpx.get(f"{server.url}/metrics", timeout=10).text
    line = re.search(r"^guided_compilations_total (\S+)$", text, re.M)
    assert line
    return float(line[1])


@pytest.fixture(scope="module")
def of_two_ranks(
    model: Path, pattern: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[tuple[str, list[float]]], float, str]:
    """Answers of a server that has ended, how often it compiled, and its log."""
    ranks, log = [*FLAGS, "--tensor-parallel-size", "2"], tmp_path_factory.mktemp("ranks") / "server.log"
    with LiveServer.started(model, log, ranks, {"VLLM_CPU_OMP_THREADS_BIND": "0|1"}) as server:
        return answers(server, server.model, pattern), compilations(server), log.read_text()


@pytest.fixture(scope="module")
def adapters(of_two_ranks, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server with an adapter, and with what the one before has left behind."""
    folder = tmp_path_factory.mktemp("adapters")
    flags = [*FLAGS, "--enable-lora", "--max-lora-rank", "8", "--lora-modules", f"adapted={adapter(folder / 'lora')}"]
    with LiveServer.started(model, folder / "server.log", flags) as server:
        yield server


def test_two_ranks(of_two_ranks, pattern):
    """A rank that masked differently would sample another token: the ranks would part, and the answers with them."""
    made, compiled, log = of_two_ranks
    assert all(re.fullmatch(pattern, text) for text, _ in made)
    assert compiled == 1 and COMPILED_IN_ENGINE not in log


def test_adapters_after_a_restart(adapters, pattern):
    own, adapted = answers(adapters, adapters.model, pattern), answers(adapters, "adapted", pattern)
    assert compilations(adapters) == 0, "the index is there"
    assert COMPILED_IN_ENGINE not in adapters.log.read_text()
    assert all(re.fullmatch(pattern, text) for text, _ in own + adapted)
    assert [logprobs for _, logprobs in own] != [logprobs for _, logprobs in adapted], "the adapter does something"


def test_an_engine_that_dies_ends_the_server_and_what_waits_gets_503(adapters):
    """The last one for this server."""
    until(adapters.is_healthy)
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(post, adapters, "/v1/completions", LONG) for _ in range(4)]
        until(lambda: metric(int(adapters.url.rsplit(":", 1)[1]), "vllm:num_requests_running") == 4)
        for pid in engine_processes(adapters.process.pid):
            os.kill(pid, signal.SIGKILL)
        answered = [one.result() for one in waiting]
    assert {answer.status_code for answer in answered} == {503}, [answer.text for answer in answered]
    assert {answer.json()["error"]["code"] for answer in answered} == {"engine_dead"}
    assert adapters.process.wait(60) not in (0, None)
    assert "the engine died" in adapters.log.read_text()


def engine_processes(parent: int) -> list[int]:
    listed = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(parent)], capture_output=True, text=True, check=True
    )
    return [int(line.split()[0]) for line in listed.stdout.splitlines() if "EngineCore" in line]

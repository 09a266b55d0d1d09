"""Engines that are started in another way: two ranks that share a model, adapters, and a start after which indexes are there already."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from tests.engine_variants.small_model import adapter, small_model
from tests.live_server import LiveServer

pytestmark = pytest.mark.engine

FLAGS = ["--load-format", "dummy", "--max-model-len", "512"]
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


def test_two_ranks_and_then_adapters_after_a_restart(model, pattern, tmp_path):
    """A rank that masked differently would sample another token: the ranks would part, and the answers with them."""
    ranks = [*FLAGS, "--tensor-parallel-size", "2"]
    with LiveServer.started(model, tmp_path / "ranks.log", ranks, {"VLLM_CPU_OMP_THREADS_BIND": "0|1"}) as server:
        for text, _ in answers(server, server.model, pattern):
            assert re.fullmatch(pattern, text)
        assert compilations(server) == 1
        assert server.log is not None and COMPILED_IN_ENGINE not in server.log.read_text()

    lora = adapter(tmp_path / "lora")
    adapters = [*FLAGS, "--enable-lora", "--max-lora-rank", "8", "--lora-modules", f"adapted={lora}"]
    with LiveServer.started(model, tmp_path / "adapters.log", adapters) as server:
        own, adapted = answers(server, server.model, pattern), answers(server, "adapted", pattern)
        assert compilations(server) == 0, "the index is there"
        assert server.log is not None and COMPILED_IN_ENGINE not in server.log.read_text()
    for text, _ in own + adapted:
        assert re.fullmatch(pattern, text)
    assert [logprobs for _, logprobs in own] != [logprobs for _, logprobs in adapted], "the adapter does something"

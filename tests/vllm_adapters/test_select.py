"""Which runner the engine gets, and what is said where it has none that takes a processor."""

from __future__ import annotations

import os

import pytest
from vllm.engine.arg_utils import EngineArgs

from guided.vllm_adapters.select import NoRunner, let_drafts_choose, processor_name

RUNNER = "VLLM_USE_V2_MODEL_RUNNER"
DRAFTS = {"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 3}


@pytest.mark.parametrize("flags", [{"speculative_config": DRAFTS}, {"spec_method": "ngram", "spec_tokens": 2}])
def test_drafts_get_the_runner_that_takes_processors_beside_them(model_folder, monkeypatch, flags):
    monkeypatch.setenv(RUNNER, "0")
    arguments = EngineArgs(model=str(model_folder), **flags)
    let_drafts_choose(arguments)
    assert RUNNER not in os.environ
    monkeypatch.setenv(RUNNER, "1")
    let_drafts_choose(arguments)
    assert os.environ[RUNNER] == "1"


def test_without_drafts_the_default_stays(model_folder, monkeypatch):
    monkeypatch.setenv(RUNNER, "0")
    let_drafts_choose(EngineArgs(model=str(model_folder)))
    assert os.environ[RUNNER] == "0"


def test_drafts_without_that_runner_are_refused_at_the_start(model_folder, monkeypatch):
    monkeypatch.setenv(RUNNER, "0")
    config = EngineArgs(model=str(model_folder), speculative_config=DRAFTS).create_engine_config()
    with pytest.raises(NoRunner, match="needs Triton"):
        processor_name(config)

"""Settings come from GUIDED_ variables; every flag of vLLM's server passes through, over our defaults."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from server.settings import Settings, parse_arguments


def test_defaults_and_environment(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # away from a developer's .env
    assert Settings().limits.seconds == 10.0
    monkeypatch.setenv("GUIDED_COMPILE_SECONDS", "2.5")
    monkeypatch.setenv("GUIDED_MAX_STATES", "7")
    limits = Settings().limits
    assert (limits.seconds, limits.states) == (2.5, 7)


@pytest.mark.parametrize(("name", "value"), [("GUIDED_COMPILE_SECONDS", "0"), ("GUIDED_MEMORY_CACHE_BYTES", "many")])
def test_bad_values_are_errors(monkeypatch, tmp_path, name, value):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(name, value)
    with pytest.raises(ValidationError):
        Settings()


def test_unknown_settings_in_the_env_file_are_errors(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("GUIDED_COMPILE_SECOND=3\n")
    with pytest.raises(ValidationError, match="compile_second"):
        Settings()


def test_other_variables_in_the_env_file_are_not_ours(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("HF_TOKEN=secret\nGUIDED_COMPILE_SECONDS=3\n")
    assert Settings().compile_seconds == 3


def test_flags_of_vllm_pass_through(tmp_path):
    args = parse_arguments(["--model", str(tmp_path), "--max-model-len", "128", "--port", "9", "--dtype", "bfloat16"])
    assert (args.max_model_len, args.port, args.dtype) == (128, 9, "bfloat16")
    assert args.host == "127.0.0.1"
    assert args.served_model_name == [tmp_path.resolve().name]


def test_a_hub_name_is_served_under_its_own_name():
    args = parse_arguments(["--model", "org/model"])
    assert args.served_model_name is None
    assert args.model == "org/model"


def test_unknown_flags_are_errors(capsys):
    with pytest.raises(SystemExit):
        parse_arguments(["--max-modle-len", "128"])
    assert "max-modle-len" in capsys.readouterr().err

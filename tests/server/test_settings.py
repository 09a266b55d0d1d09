"""Settings come from GUIDED_ variables, `.env`, a file and the command line; vLLM's flags pass through, over our defaults."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic import ValidationError

from server.bedrock.settings import BedrockSettings
from server.command_line import parse_arguments, take_keys
from server.settings import Settings, read_settings
from tests.live_server import ROOT


@pytest.fixture(autouse=True)
def no_env_file(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # away from a developer's .env


def test_defaults_and_environment(monkeypatch):
    assert Settings().limits.seconds == 10.0
    monkeypatch.setenv("GUIDED_COMPILE_SECONDS", "2.5")
    monkeypatch.setenv("GUIDED_MAX_STATES", "7")
    limits = Settings().limits
    assert (limits.seconds, limits.states) == (2.5, 7)


@pytest.mark.parametrize(("name", "value"), [("GUIDED_COMPILE_SECONDS", "0"), ("GUIDED_MEMORY_CACHE_BYTES", "many")])
def test_bad_values_are_errors(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(ValidationError):
        Settings()


def test_unknown_settings_are_errors_wherever_they_are(monkeypatch, tmp_path):
    with pytest.raises(ValueError, match=r"--guided\.compile_second is no setting: is it compile_seconds"):
        read_settings({"compile-second": 3})
    (tmp_path / ".env").write_text("GUIDED_COMPILE_SECOND=3\n")
    with pytest.raises(ValueError, match="GUIDED_COMPILE_SECOND is no setting: is it compile_seconds"):
        read_settings({})
    (tmp_path / ".env").unlink()
    monkeypatch.setenv("guided_compile_second", "3")
    with pytest.raises(ValueError, match="guided_compile_second is no setting: is it GUIDED_COMPILE_SECONDS"):
        read_settings({})


def test_variables_that_others_read_are_no_settings_and_no_errors(monkeypatch, tmp_path):
    for name in ("GUIDED_CACHE_DIR", "GUIDED_BEDROCK_REGION", "GUIDED_TEST_DEPLOY"):
        monkeypatch.setenv(name, "x")
    (tmp_path / ".env").write_text("HF_TOKEN=secret\nGUIDED_COMPILE_SECONDS=3\n")
    assert Settings().compile_seconds == 3


def test_the_other_gateway_knows_its_own_names_only(monkeypatch):
    monkeypatch.setenv("GUIDED_BEDROCK_MODELS", '{"a": "b"}')
    assert BedrockSettings().models == {"a": "b"}
    monkeypatch.setenv("GUIDED_BEDROCK_ATEMPTS", "2")
    with pytest.raises(ValidationError, match="GUIDED_BEDROCK_ATEMPTS is no setting: is it GUIDED_BEDROCK_ATTEMPTS"):
        BedrockSettings()


def test_errors_do_not_repeat_secrets(monkeypatch):
    monkeypatch.setenv("GUIDED_REDIS_KEY", "hunter2")
    with pytest.raises(ValueError) as raised:
        read_settings({"compile_seconds": "hunter3", "redis_passwort": "hunter4"})
    assert "hunter" not in str(raised.value)


def test_the_command_line_wins_over_its_file_and_both_over_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("GUIDED_COMPILE_SECONDS", "1")
    monkeypatch.setenv("GUIDED_MAX_STATES", "1")
    monkeypatch.setenv("GUIDED_COMPILE_QUEUE", "1")
    path = tmp_path / "server.yaml"
    path.write_text("model: org/model\nmax-model-len: 64\nguided:\n  compile_seconds: 2\n  max-states: 2\n")
    args, given = parse_arguments(["--config", str(path), "--guided.compile_seconds", "3", "--guided.warm=/a:/b"])
    settings = read_settings(given)
    assert (args.model, args.max_model_len) == ("org/model", 64)
    assert (settings.compile_seconds, settings.max_states, settings.compile_queue) == (3, 2, 1)
    assert [str(path) for path in settings.warm_paths] == ["/a", "/b"]


def test_what_is_no_mapping_of_settings_is_an_error(capsys):
    with pytest.raises(SystemExit):
        parse_arguments(["--model", "a/b", "--guided", "3"])
    assert "--guided.NAME VALUE" in capsys.readouterr().err


def test_flags_of_vllm_pass_through(tmp_path):
    flags = ["--max-model-len", "128", "--port", "9", "--dtype", "bfloat16", "--tensor-parallel-size", "2"]
    flags += ["--speculative-config", '{"method": "ngram", "num_speculative_tokens": 3}']
    args, given = parse_arguments(["--model", str(tmp_path), *flags])
    assert (args.max_model_len, args.port, args.dtype, args.tensor_parallel_size) == (128, 9, "bfloat16", 2)
    assert args.speculative_config == {"method": "ngram", "num_speculative_tokens": 3}
    assert (args.host, args.shutdown_timeout) == ("127.0.0.1", 30)
    assert args.served_model_name == [tmp_path.resolve().name]
    assert given == {}


def test_a_hub_name_is_served_under_its_own_name():
    args, _ = parse_arguments(["--model", "org/model"])
    assert args.served_model_name is None
    assert args.model == "org/model"


def test_unknown_flags_are_errors(capsys):
    with pytest.raises(SystemExit):
        parse_arguments(["--max-modle-len", "128"])
    assert "max-modle-len" in capsys.readouterr().err


@pytest.mark.parametrize("flags", [["--grpc"], ["--api-server-count", "2"]])
def test_ways_to_serve_that_are_not_ours_are_refused(flags, capsys):
    with pytest.raises(SystemExit):
        parse_arguments(["--model", "a/b", *flags])
    assert f"{flags[0]}: guided-server is one process" in capsys.readouterr().err


def test_flags_that_do_not_go_together_are_an_error_not_a_traceback(capsys):
    with pytest.raises(SystemExit):
        parse_arguments(["--model", "a/b", "--enable-auto-tool-choice"])
    assert "requires --tool-call-parser" in capsys.readouterr().err


def test_keys_of_vllm_are_taken_out_of_what_others_log(monkeypatch):
    monkeypatch.setenv("VLLM_API_KEY", "from the environment")
    args, _ = parse_arguments(["--model", "a/b", "--api-key", "one", "two"])
    assert (take_keys(args), args.api_key) == (["one", "two"], None)
    args, _ = parse_arguments(["--model", "a/b"])
    assert take_keys(args) == ["from the environment"]
    monkeypatch.delenv("VLLM_API_KEY")
    assert take_keys(args) == []


def test_the_table_in_the_documentation_is_that_of_the_settings():
    script = ROOT / "scripts" / "settings_docs.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_setting_is_described():
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []

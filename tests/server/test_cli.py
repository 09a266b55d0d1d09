"""What a person who starts the server reads when it cannot start: one line, not a traceback."""

from __future__ import annotations

import sys

import pytest

from server.cli import main


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

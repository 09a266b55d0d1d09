"""The export of the embedded model: whole or not at all, once, and cheap to ask about."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from scripts import prepare_model
from tests.live_server import ROOT


def fake_export(source, folder, started):
    (folder / "config.json").write_text("{}")


@pytest.fixture(autouse=True)
def no_package(monkeypatch, tmp_path):
    monkeypatch.setattr(prepare_model, "find_gguf", lambda: tmp_path)


def test_interrupted_export_leaves_nothing(monkeypatch, tmp_path):
    def fail(source, folder, started):
        (folder / "model.safetensors").write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(prepare_model, "save_model", fail)
    target = tmp_path / "models" / "m"
    with pytest.raises(KeyboardInterrupt):
        prepare_model.export(target)
    assert list(target.parent.iterdir()) == []


def test_export_appears_whole(monkeypatch, tmp_path):
    monkeypatch.setattr(prepare_model, "save_model", fake_export)
    target = tmp_path / "models" / "m"
    prepare_model.export(target)
    assert prepare_model.is_complete(target)
    assert [entry.name for entry in target.parent.iterdir()] == ["m"]


def test_another_process_may_have_been_faster(monkeypatch, tmp_path):
    target = tmp_path / "models" / "m"

    def overtaken(source, folder, started):
        fake_export(source, folder, started)
        target.mkdir()
        (target / "config.json").write_text('{"from": "the other"}')

    monkeypatch.setattr(prepare_model, "save_model", overtaken)
    prepare_model.export(target)
    assert "other" in (target / "config.json").read_text()
    assert [entry.name for entry in target.parent.iterdir()] == ["m"]


def test_finished_export_costs_no_heavy_import(tmp_path):
    folder = tmp_path / "models" / prepare_model.MODEL_NAME
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    command = [sys.executable, "-X", "importtime", "scripts/prepare_model.py"]
    environment = {**os.environ, "GUIDED_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(folder)
    assert "torch" not in done.stderr
    assert "transformers" not in done.stderr

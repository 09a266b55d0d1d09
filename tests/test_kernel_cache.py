"""Compiled kernels are kept apart for each state of the sources that they are compiled from."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import guided
from guided.kernel_cache import kernel_sources, one_at_a_time

ROOT = Path(guided.__file__).parent


def folder(environment: dict[str, str]) -> str:
    program = "import guided, os; print(os.environ['NUMBA_CACHE_DIR']); import numba; print(numba.config.CACHE_DIR)"
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    told, used = done.stdout.split()
    assert told == used
    return told


def test_every_constant_of_a_kernel_is_in_the_state():
    sources = kernel_sources(ROOT)
    assert ROOT / "automaton" / "stack_sets.py" in sources and ROOT / "automaton" / "packed.py" in sources
    for path in sources:
        for node in ast.walk(ast.parse(path.read_text())):
            ours = isinstance(node, ast.ImportFrom) and (node.module or "").startswith("guided.")
            if ours and any(alias.name.isupper() for alias in node.names):
                assert ROOT.parent / f"{node.module.replace('.', '/')}.py" in sources, (path, node.module)


def test_the_folder_is_chosen_once_and_inside_of_the_one_that_is_set(tmp_path):
    environment = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
    own = folder(environment | {"GUIDED_CACHE_DIR": str(tmp_path)})
    assert Path(own).parent == tmp_path / "kernels"
    told = folder(environment | {"NUMBA_CACHE_DIR": str(tmp_path / "numba")})
    assert Path(told).parent == tmp_path / "numba" and Path(told).name == Path(own).name
    assert folder(environment | {"NUMBA_CACHE_DIR": told}) == told  # a process that another one started


def test_processes_that_start_together_compile_one_after_the_other():
    program = "from guided.kernel_cache import one_at_a_time\nwith one_at_a_time(): print('alone')"
    with one_at_a_time():
        other = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(timeout=3)
    assert other.communicate(timeout=60)[0] == "alone\n"


def test_where_the_folder_cannot_be_written_nobody_waits(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file" / "kernels"))
    with one_at_a_time():
        pass

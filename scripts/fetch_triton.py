"""Triton in a folder of its own, for the tests that run vLLM's V2 model runner on a CPU; knows no test.

    python scripts/fetch_triton.py

Fills `$GUIDED_CACHE_DIR/triton-3.9.0` (`~/.cache/guided` by default) once. Never into the serving environment: vLLM behaves
differently where it finds Triton. Where there is no network it says so and exits 0: the tests that need it skip then.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

VERSION = "3.9.0"


def target() -> Path:
    """Where Triton lies, whether or not it has been fetched."""
    root = Path(os.environ.get("GUIDED_CACHE_DIR") or "~/.cache/guided").expanduser()
    return root / f"triton-{VERSION}"


def is_there() -> bool:
    return (target() / "triton" / "__init__.py").is_file()


def main() -> None:
    if is_there():
        return
    print(f"==> fetching triton {VERSION} for the tests of the V2 runner")
    staged = target().with_suffix(".staged")
    shutil.rmtree(staged, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    done = subprocess.run([*pip, "--target", str(staged), f"triton=={VERSION}"], check=False)
    if done.returncode == 0:
        staged.rename(target())
    else:
        print("    triton could not be fetched: the tests of the V2 runner will be skipped")


if __name__ == "__main__":
    main()

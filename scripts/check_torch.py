"""In: the kind of hardware ("cpu" or "gpu"); out: exit status 0 when torch loads there, else what to do.

It runs once, at the end of the installation: a torch built for CUDA loads on no machine without NVIDIA's libraries, and the
message that it gives then ("libcublas.so.12: cannot open shared object file") helps nobody.
"""

from __future__ import annotations

import sys

ADVICE = """
The installed torch does not load here: {error}
The lock file for machines without a GPU wants PyTorch's CPU build. Install it once, then run make again:
    .venv/bin/python -m pip install --no-deps --force-reinstall "torch=={version}" --index-url <the CPU index named on pytorch.org>
"""


def main() -> None:
    hardware = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    try:
        import torch
    except (ImportError, OSError) as error:
        from importlib.metadata import version

        raise SystemExit(ADVICE.format(error=error, version=version("torch").split("+")[0])) from error
    if hardware == "gpu" and not torch.cuda.is_available():
        raise SystemExit("torch loads but sees no NVIDIA GPU; use HARDWARE=cpu make ... to serve on the CPU")
    print(f"torch {torch.__version__} loads ({hardware})")


if __name__ == "__main__":
    main()

"""All benchmarks, one after the other: `make bench`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main() -> None:
    """Each in a process of its own, so that none measures what another left behind."""
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.stem in ("__init__", "__main__", "measure", "peers", "grammar_texts"):
            continue
        print(f"\n=== benchmarks.{path.stem}", flush=True)
        subprocess.run([sys.executable, "-m", f"benchmarks.{path.stem}"], check=True)


if __name__ == "__main__":
    main()

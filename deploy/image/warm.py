"""In: an image that is being built; out: Numba's cache filled, or a failed build that names what does not import.

vLLM's image brings its own versions of everything but this project; what they do not satisfy has to fail here, not in a cluster.
"""

import importlib
import os
import pkgutil
import sys

import guided
import server

for package in (guided, server):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if module.name.rpartition(".")[2] != "__main__":
            importlib.import_module(module.name)
guided.warm_up()
cached = sum(name.endswith(".nbc") for _, _, names in os.walk(os.environ["NUMBA_CACHE_DIR"]) for name in names)
print(f"Python {sys.version.split()[0]}, {cached} compiled kernels cached")
if not cached:
    raise SystemExit("Numba wrote no cache")

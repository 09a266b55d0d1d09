"""In: an image that is being built; out: Numba's cache filled, or a failed build that names what does not import.

vLLM's image brings its own versions of everything but this project; what they do not satisfy has to fail here, not in a cluster.
"""

import ast
import importlib
import importlib.util
import os
import pkgutil
import sys
from pathlib import Path
from types import ModuleType

import guided
import server
from guided.explain import characters

NOT_HERE = "bedrock"  # an image of its own


def imports(package: ModuleType) -> set[str]:
    """Top-level names of everything that a package imports, at its start or later."""
    names: set[str] = set()
    for path in Path(package.__path__[0]).rglob("*.py"):
        if NOT_HERE in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module.split(".")[0])
    return names


missing = sorted(n for p in (guided, server) for n in imports(p) if importlib.util.find_spec(n) is None)
if missing:
    raise SystemExit(f"the image lacks {', '.join(missing)}")
for package in (guided, server):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if module.name.rpartition(".")[2] != "__main__" and NOT_HERE not in module.name.split("."):
            importlib.import_module(module.name)
guided.warm_up()
characters.warm()
cached = sum(name.endswith(".nbc") for _, _, names in os.walk(os.environ["NUMBA_CACHE_DIR"]) for name in names)
print(f"Python {sys.version.split()[0]}, {cached} compiled kernels cached")
if not cached:
    raise SystemExit("Numba wrote no cache")

"""What an index depends on besides its constraint, as one name: format, vocabulary, and the code that compiles.

A constraint's digest names its index within a generation. The code is part of it so that an upgrade never meets an index that an older
release compiled differently: nobody has to remember to raise a number.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from pathlib import Path

from guided.constraint import FORMAT_VERSION
from guided.vocabulary import Vocabulary

# The parts of the package that an index comes out of.
_COMPILING = (
    "automaton", "choice.py", "compiler.py", "constraint.py", "errors.py", "grammar", "index", "json_schema", "limits.py", "regex",
    "structural_tag", "vocabulary",
)  # fmt: skip
_DIGEST = re.compile("[0-9a-f]{64}")


def generation(vocabulary: Vocabulary) -> str:
    """32 hex digits: equal for processes whose indexes are interchangeable."""
    about = f"{FORMAT_VERSION}\0{_code_digest()}\0{vocabulary.digest}"
    return hashlib.sha256(about.encode()).hexdigest()[:32]


def is_digest(text: str) -> bool:
    """Has it the form of a constraint's digest? Only such a text becomes part of a path or a key."""
    return _DIGEST.fullmatch(text) is not None


@lru_cache(maxsize=1)
def _code_digest() -> str:
    root = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for name in _COMPILING:
        part = root / name
        for path in [part] if part.is_file() else sorted(part.rglob("*.py")):
            digest.update(f"{path.relative_to(root).as_posix()}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()

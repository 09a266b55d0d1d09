"""Kernels that are called often, and with the same types always, are called past Numba's dispatcher; knows no kernel.

To choose among the compiled versions of a function the dispatcher works out the type of each argument, for a `packed` tuple of each of its
arrays. For an automaton and its rows that is forty, and takes longer than most kernels run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any


def direct(kernel: Any) -> Callable[..., Any]:
    """The compiled version of a kernel, where there is one alone; else the kernel, which compiles or chooses.

    Compiled code looks at the size of an array's items and no further, so this is for arguments of one owner, who makes them all alike.
    """
    return _version(kernel) if kernel.overloads else kernel


@cache
def _version(kernel: Any) -> Callable[..., Any]:
    versions = list(
        kernel.overloads.values()
    )  # once: its keys are types, which take longer to hash than most kernels run
    return versions[0].entry_point if len(versions) == 1 else kernel

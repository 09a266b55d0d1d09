"""In: one question about a schema after the other, over a pipe; out: its answer. A process of its own, since a question may never end.

python -m server.bedrock.check_worker DESCRIPTOR      # of the pipe's end, which `checker` hands on
"""

from __future__ import annotations

import json
import resource
import sys
from multiprocessing.connection import Connection
from typing import Any

from server.bedrock.checker import READY
from server.bedrock.schema_check import checked, problem
from server.errors import RequestRefused

MEMORY_BYTES = 512 << 20  # address space: half of the smallest function that the gateway runs in


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """
    Args:
        question: {"schema", "field", "closed"}: what is really checked; or {"schema", "answer"}: does the answer fit.

    Returns:
        {"schema"} or {"refused": [message, code, param]}; {"problem"}, which is null where it fits.
    """
    try:
        if "answer" in question:
            return {"problem": problem(question["schema"], question["answer"])}
        return {"schema": checked(question["schema"], question["field"], closed=question["closed"])}
    except RequestRefused as error:
        return {"refused": [error.message, error.code, error.param]}
    except MemoryError:
        return {"refused": ["checking takes too much memory", "constraint_too_complex", None]}


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    with Connection(int(sys.argv[1])) as pipe:
        try:
            pipe.send_bytes(READY)
            while True:
                pipe.send_bytes(json.dumps(answer(json.loads(pipe.recv_bytes()))).encode())
        except (EOFError, OSError):  # the gateway is gone
            return


if __name__ == "__main__":
    main()

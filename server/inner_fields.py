"""In: an object within a request, and the names that are read in it; out: nothing, or a refusal of the first other name.

vLLM's models take any name at any depth, so `tools[0].function.paramters` would leave a tool without parameters. What stands for a whole
request is `request_fields`' matter. Knows no vLLM.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from server.errors import RequestRefused
from server.near_names import did_you_mean

FUNCTION = ("name", "description", "parameters", "strict", "defer_loading")  # of a tool
CUSTOM = ("name", "description", "format", "defer_loading")
OF_A_TOOL = ("type", "defer_loading", "cache_control")  # beside either; the last says nothing about the answer

READ_WITHIN = {  # field of a request -> what is read in it
    "stream_options": ("include_usage", "continuous_usage_stats", "include_obfuscation"),
    "text": ("format", "verbosity"),
    "reasoning": ("effort", "summary", "generate_summary", "context", "mode"),
}


def refuse_unread(value: Any, place: str, read: Collection[str], taken: Collection[str] = ()) -> None:
    """Raises RequestRefused for a name in `value` that is not one of `read`; what is null, or no object, passes.

    Args:
        place: where the object is, as refusals name it ("tools.0.function"); "": it is the request.
        taken: names that pass too, and have no effect.
    """
    for name, said in value.items() if isinstance(value, Mapping) else ():
        if name not in read and name not in taken and said is not None:
            field = f"{place}.{name[:80]}".lstrip(".")
            raise RequestRefused(
                f"{field} is unknown, and would be ignored{did_you_mean(name, read)}", "unknown_parameter", field
            )


def refuse_unread_within(body: Mapping[str, Any]) -> None:
    """Raises RequestRefused for what nobody would read in those fields of a request that are objects with fixed names."""
    for field, read in READ_WITHIN.items():
        refuse_unread(body.get(field), field, read)

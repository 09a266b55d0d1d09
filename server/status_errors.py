"""In: an HTTP status and what was said of it; out: the refusal in OpenAI's words. Knows no vLLM, so that every gateway can use it."""

from __future__ import annotations

from http.client import responses

from starlette.types import Scope

from server.errors import RequestRefused

CODES = {  # HTTP status -> code, where the error has none of its own
    401: "invalid_api_key",
    403: "permission_denied",
    404: "not_found",
    405: "method_not_allowed",
    413: "request_too_large",
    415: "unsupported_media_type",
    429: "rate_limit_exceeded",
    501: "not_implemented",
    503: "unavailable",
}
VALIDATED = "invalid_value"


def code_of(status: int) -> str:
    """The code of an error of which only its status is known."""
    return CODES.get(status) or (VALIDATED if status < 500 else "internal_error")


def of_status(status: int, detail: str, scope: Scope) -> RequestRefused:
    """The refusal that only its status tells, such as Starlette's for an address that does not exist."""
    code = code_of(status)
    phrase = responses.get(status, "the request was not answered")  # 499, that the client left, is nobody's standard
    message = detail if detail and detail != phrase else phrase
    if status == 401:
        message = "this needs an API key that the server knows: Authorization: Bearer KEY"
    elif status == 404 and message == phrase:
        message, code = f"there is no {scope['method']} {scope['path'][:200]} on this server", "unknown_url"
    elif status == 405 and message == phrase:
        message = f"{scope['path'][:200]} cannot be asked with {scope['method']}"
    return RequestRefused(message, code, None, status)

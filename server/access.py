"""In: the path of a route; out: who may call it. A path that nobody thought of is for operators: a new route is closed, not open."""

from __future__ import annotations

from enum import Enum


class Access(Enum):
    PUBLIC = "anybody"
    CALLER = "whoever has an API key"
    ADMIN = "operators"


# They say no more than that the server is there; the playground is a page without data, which asks for a key.
_PUBLIC = {"/", "/health", "/ready", "/ping"}
_PUBLIC_PREFIXES = ("/playground/", "/static/")  # what a page is drawn with; Swagger UI's own files
# Generate something, or reveal what a caller may know.
_CALLER_PREFIXES = ("/v1/", "/v2/", "/inference/v1/", "/cohere/")
_CALLER = {
    "/invocations",
    "/tokenize",
    "/detokenize",
    "/tokenizer_info",
    "/classify",
    "/pooling",
    "/rerank",
    "/score",
    "/generative_scoring",
    "/version",
    "/load",
    "/docs",
    "/docs/oauth2-redirect",
    "/redoc",
    "/openapi.json",
}
# Change what others get.
_ADMIN = {
    "/v1/guided/cache/flush",
    "/v1/load_lora_adapter",
    "/v1/unload_lora_adapter",
    "/inference/v1/abort_requests",
}


def access_to(path: str) -> Access:
    """
    Args:
        path: without the prefix of a proxy.
    """
    if path in _PUBLIC or path.startswith(_PUBLIC_PREFIXES):
        return Access.PUBLIC
    if path.rstrip("/") in _ADMIN:
        return Access.ADMIN
    if path in _CALLER or path.startswith(_CALLER_PREFIXES):
        return Access.CALLER
    return Access.ADMIN

"""In: a browser's requests for `/`; out: the playground, a page of plain files. Knows no engine: the page uses the API as any client does.

The page itself needs no key, since it holds no secret and reveals nothing; what it asks of the server does. It loads nothing from
elsewhere and may not: its Content-Security-Policy allows this server's own files and no inline code.
"""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

FOLDER = Path(__file__).resolve().parent.parent / "playground"
PAGE = "index.html"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",  # asked for again, answered with 304 as long as it is the same
}


class _Files(StaticFiles):
    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(HEADERS)
        return response


def add_playground(app: FastAPI) -> None:
    """`GET /` and the files of the page under `/playground`."""
    files, router = _Files(directory=FOLDER), APIRouter()

    @router.get("/", include_in_schema=False)
    async def page(request: Request) -> Response:
        return await files.get_response(PAGE, request.scope)

    app.include_router(router)
    app.mount("/playground", files)

"""The files of the page: served with a strict policy, self-contained."""

from __future__ import annotations

import re

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from server.routes.playground import FOLDER, add_playground

FILES = sorted(path.name for path in FOLDER.iterdir())
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@pytest.fixture(scope="module")
def client():
    app = FastAPI()
    add_playground(app)
    with TestClient(app) as client:
        yield client


def test_the_page_is_at_the_root_and_in_no_schema(client):
    answer = client.get("/")
    assert answer.status_code == 200 and "<title>Playground" in answer.text
    assert client.app.openapi()["paths"] == {}


@pytest.mark.parametrize("path", ["/", *(f"/playground/{name}" for name in FILES)])
def test_files_come_with_their_type_and_a_strict_policy(client, path):
    answer = client.get(path)
    suffix = "." + (path.rsplit(".", 1)[1] if "." in path else "html")
    assert answer.headers["content-type"].split(";")[0] == TYPES[suffix]
    policy = dict(rule.split(" ", 1) for rule in answer.headers["content-security-policy"].split("; "))
    assert (
        policy["default-src"] == "'none'"
        and policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    )
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    again = client.get(path, headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["content-security-policy"] == answer.headers["content-security-policy"]


def test_nothing_else_is_served(client):
    for path in ("/playground/", "/playground/..%2fapp.py", "/playground/../app.py", "/playground/nothing.js"):
        assert client.get(path).status_code == 404


@pytest.mark.parametrize("name", FILES)
def test_nothing_comes_from_elsewhere(name):
    text = (FOLDER / name).read_text(encoding="utf-8").replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"https?:|//[\w-]+\.\w|@import|url\(", re.sub(r"^\s*//.*$", "", text, flags=re.M))
    if name.endswith(".html"):
        assert not re.search(r"\son\w+=|\sstyle=|<script(?! type=\"module\" src=)|<style", text)  # nothing inline
    if name.endswith(".js"):
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)

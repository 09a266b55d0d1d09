"""The playground on a live server: what a person sees is the engine's answer, and it keeps to the constraint."""

from __future__ import annotations

import json
import re

import pytest

from tests.live_server import LiveServer
from tests.playground.browser import Page, chromium

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def page(server: LiveServer):
    with chromium() as browser:
        page = Page(browser, f"{server.url}/")
        page.open()
        page.until(lambda: page["model"].is_enabled())
        yield page
        assert page.complaints() == []


def run(page: Page) -> str:
    """The answer, once it is complete."""
    assert page.until(lambda: page["verdict"].text == "The server can enforce this.")
    page["run"].click()
    page.until(lambda: page["outcome"].text)
    assert page["outcome"].text in ("Complete.", "Ended with the last token that it may have.")
    return "".join(page.tokens())


def test_the_model_is_the_server_s(page, server):
    assert [option.text for option in page.all("#model option")] == [server.model]


def test_a_regex(page):
    page.choose_kind("regex")
    assert re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,3}){3}:[0-9]{2,5}", run(page))
    assert len(page.tokens()) > 5  # token by token


def test_a_choice(page):
    page.choose_kind("choice")
    assert run(page) in ("POSITIVE", "NEUTRAL", "NEGATIVE")


def test_a_schema(page):
    page.choose_kind("json")
    page.all("#example option")[1].click()
    answer = json.loads(run(page))
    assert list(answer) == ["location", "unit"] and answer["unit"] in ("celsius", "fahrenheit")


def test_a_grammar_and_its_automaton(page):
    page.choose_kind("grammar")
    assert re.match(r"(NOT )?(service|status|region|\()", run(page))
    page.all("#automaton summary")[0].click()
    assert page.until(lambda: page.script("return document.getElementById('automaton-picture').naturalWidth"))


def test_stopping(page):
    page.choose_kind("regex")
    page.type_constraint("(word ){400}")
    page.until(
        lambda: page["fact-fewest"].text.isdigit() and int(page["fact-fewest"].text) >= 400
    )  # no longer the example's
    page["run"].click()
    page.until(lambda: len(page.tokens()) > 2)
    page["stop"].click()
    assert page.outcome().startswith("Stopped after")

"""The page in a browser: what a person sees and does, on the server's own routes for constraints."""

from __future__ import annotations

import httpx
import pytest
from selenium.webdriver.common.keys import Keys

from tests.playground.backend import MODELS, Script
from tests.playground.browser import MODIFIER

TREE = '{"properties": {"children": {"items": {"$ref": "#"}}}}'
BUDGET = '{"type": "object", "properties": {"reasoning": {"type": "string"}, "answer": {"type": "integer"}}, "required": ["answer"]}'


def ready(page):
    assert page.verdict() == "The server can enforce this."


# --- the constraint ---------------------------------------------------------------------------------------------------


def test_models_of_the_server_can_be_chosen(page):
    page.until(lambda: page["model"].is_enabled())
    assert [option.text for option in page.all("#model option")] == MODELS
    page.all("#model option")[1].click()
    assert '"model": "larger-model"' in page.call("curl")


@pytest.mark.parametrize("kind", ["json", "regex", "choice", "grammar"])
def test_every_example_can_be_enforced(page, kind):
    page.choose_kind(kind)
    names = [option.text for option in page.all("#example option")]
    assert len(names) >= 2
    for option in page.all("#example option"):
        option.click()
        ready(page)
        assert page["prompt"].get_attribute("value")


def test_facts_are_those_of_the_server(page, backend):
    page.choose_kind("regex")
    page.type_constraint("[ab]{2,4}")
    ready(page)
    facts = httpx.post(f"{backend.url}/v1/guided/compile", json={"guided_regex": "[ab]{2,4}"}).json()
    shown = [page[f"fact-{name}"].text for name in ("fewest", "typical", "most", "states")]
    expected = [facts["fewest_tokens"], f"≈ {facts['typical_tokens']}", facts["most_tokens"], facts["states"]]
    assert shown == [str(value) for value in expected]
    assert page["max-tokens"].get_attribute("placeholder") == f"auto: {facts['max_tokens']}"


def test_what_was_said_of_another_text_is_gone_at_once(page):
    ready(page)
    page.type_constraint("[1]")
    assert page["verdict"].text != "The server can enforce this."


def test_an_answer_without_bound_is_called_so(page):
    page.choose_kind("regex")
    page.type_constraint("a+")
    ready(page)
    assert page["fact-most"].text == "no bound"


@pytest.mark.parametrize(
    ("kind", "text", "marked", "words"),
    [
        ("json", '{"type": "object", "properties": {"a": {"type": "strnig"}}}', ['"strnig"'], "strnig"),
        ("json", '{"type": "object",\n "properties": {"a": {"pattern": "(x"}}}', ['"(x"'], "column"),
        ("json", '{"type": "object"', [" "], "not JSON: a comma or }"),
        ("json", "{'type': 1}", ["'"], "not JSON: a name in double quotes"),
        ("json", '{"a": 1} x', ["x"], "not JSON: nothing may follow"),
        ("json", "[1]", ["[1]"], "an object or a boolean"),
        ("regex", "a(b", ["("], "column 2"),
        ("regex", "😀é(b", ["("], "column 3"),
        ("grammar", 'start: "a" B\n', ["B"], "line 1"),
        ("grammar", 'start: a\na: "😀" VALUE\n', ["VALUE"], "line 2"),
        ("choice", "", [" "], "empty"),
    ],
)
def test_errors_are_marked_where_they_are(page, kind, text, marked, words):
    page.choose_kind(kind)
    page.type_constraint(text)
    page.until(page.marked)
    assert page.marked() == marked
    assert words in page["verdict"].text and "guided_" not in page["verdict"].text
    assert page["editor"].get_attribute("aria-invalid") == "true"
    assert not page["facts"].is_displayed()
    page.type_constraint({"json": "{}", "regex": "a", "grammar": 'start: "a"', "choice": "a"}[kind])
    page.until(lambda: page["verdict"].text == "The server can enforce this.")
    assert page.marked() == [] and page["editor"].get_attribute("aria-invalid") == "false"


def test_marks_lie_under_the_text(page):
    """The copy that carries the marks wraps its lines where the text area does."""
    page.type_constraint('{"description": "' + "long words " * 60 + '", "type": "strnig"}')
    page.until(page.marked)
    copy, area = page.script(
        "return ['editor-marks', 'editor'].map((id) => { const e = document.getElementById(id); return [e.clientWidth, e.scrollHeight] })"
    )
    assert copy == area


def test_advice_leads_to_its_place(page):
    page.type_constraint(BUDGET)
    ready(page)
    buttons = page.all("#advice-list button")
    assert buttons and page["advice"].is_displayed()
    buttons[0].click()
    selected = page.script(
        "const e = document.getElementById('editor'); return [document.activeElement.id, e.value.slice(e.selectionStart, e.selectionEnd)]"
    )
    name = buttons[0].text.rsplit("/", 1)[1]
    assert selected[0] == "editor" and name in selected[1] + BUDGET[BUDGET.index(selected[1]) - 30 :][:60]


def test_each_kind_keeps_its_text(page):
    page.type_constraint("true")
    page.choose_kind("regex")
    page.type_constraint("abc")
    page.choose_kind("json")
    assert page["editor"].get_attribute("value") == "true"
    page.choose_kind("regex")
    assert page["editor"].get_attribute("value") == "abc"


def test_the_automaton_is_drawn_and_drawn_anew(page):
    def width() -> int:
        return page.script("return document.getElementById('automaton-picture').naturalWidth")

    page.choose_kind("choice")
    ready(page)
    page.all("#automaton summary")[0].click()
    first = page.until(width)
    page.type_constraint("\n".join(f"a much longer choice, number {n}" for n in range(9)))
    page.until(lambda: width() not in (0, first))
    assert page["automaton-picture"].get_attribute("alt").startswith("State diagram")
    assert page["automaton-file"].get_attribute("href").startswith("blob:")


# --- the answer -------------------------------------------------------------------------------------------------------


def test_tokens_are_coloured_by_pressure_and_forced_ones_marked(page, script: Script):
    script.tokens = [("{", 0.005, 2), ('"a', 0.05, 9), ('":', 1.0, 1), (" 7", 0.3, 10), ("1", 0.8, 11), ("}", 0.95, 40)]
    ready(page)
    page["run"].click()
    assert page.outcome() == "Complete."
    assert page.tokens() == [text for text, _, _ in script.tokens]
    classes = [token.get_attribute("class") for token in page.all("#tokens .token")]
    levels = [4, 3, 0, 2, 1, 0]
    assert classes == [f"token pressure-{level}{' forced' if n == 2 else ''}" for n, level in enumerate(levels)]
    assert page["legend"].is_displayed()
    figures = dict(
        zip([d.text for d in page.all("#figures dt")], [d.text for d in page.all("#figures dd")], strict=True)
    )
    assert (figures["tokens"], figures["forced"], figures["index from"]) == ("7", "2", "memory")
    assert figures["left, least"] == "0.5 %"


def test_without_measurements_nothing_is_coloured(page, script: Script):
    script.measures = False
    ready(page)
    page["run"].click()
    assert page.outcome() == "Complete."
    assert page.tokens() == ["[", "1", "]"]
    assert {token.get_attribute("class") for token in page.all("#tokens .token")} == {"token"}
    assert not page["legend"].is_displayed()
    assert [d.text for d in page.all("#figures dt")] == ["tokens", "first token", "tokens/s", "index from"]


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_thinking_stands_above_and_leaves_the_answer_its_own_colours(page, script: Script, name: str):
    script.thoughts, script.thinks_as = ["Let me", " see", ""], name  # the last one ends it and has no text
    ready(page)
    page["run"].click()
    assert page.outcome() == "Complete."
    assert page["thoughts"].text == "Let me see"
    assert page.tokens() == ["[", "1", "]"]
    classes = [token.get_attribute("class") for token in page.all("#tokens .token")]
    assert classes == ["token pressure-4 forced", "token pressure-1", "token pressure-0"]
    assert page.all("#figures dd")[0].text == "7"
    page["tokens"].send_keys(Keys.HOME)
    assert page["token-note"].text == 'Token 4 of 7: "[" · forced · 0.4 % left'
    script.thoughts = []
    page["run"].click()
    page.until(lambda: not page["thoughts"].is_displayed())


def test_an_answer_without_constraint(page, script: Script):
    page.choose_kind("none")
    assert not page["editor"].is_displayed()
    page["run"].click()
    assert page.outcome() == "Complete."
    assert not any(name.startswith("guided") for name in script.requests[0])
    assert not page["legend"].is_displayed()


def test_tokens_are_shown_as_they_come_and_can_be_stopped(page, script: Script):
    script.tokens, script.hold_after = [(f"w{n} ", 1.0, 5) for n in range(6)], 3
    ready(page)
    page["run"].click()
    page.until(lambda: len(page.tokens()) == 3)
    assert page["stop"].is_enabled() and not page["run"].is_enabled()
    assert page["tokens"].get_attribute("aria-busy") == "true"
    page["stop"].click()
    assert page.outcome() == "Stopped after 3 tokens."
    assert script.left.wait(60), "the server was not told"
    assert page["run"].is_enabled() and not page["stop"].is_enabled()


def test_escape_stops_too(page, script: Script):
    script.hold_after = 1
    ready(page)
    page["run"].click()
    page.until(lambda: len(page.tokens()) == 1)
    page["prompt"].send_keys(Keys.ESCAPE)
    assert page.outcome() == "Stopped after 1 tokens."


def test_a_character_of_several_tokens_is_one_piece(page, script: Script):
    script.tokens = [("", 0.5, 3), ("", 1.0, 1), ("😀", 0.02, 1), ("!", 1.0, 9)]
    ready(page)
    page["run"].click()
    page.outcome()
    assert page.tokens() == ["😀", "!"]
    page["tokens"].send_keys(Keys.HOME)
    assert page["token-note"].text == 'Tokens 1 to 3 of 5: "😀" · 1 allowed · 2 % left'
    page["tokens"].send_keys(Keys.END)
    assert page["token-note"].text.startswith('Token 4 of 5: "!"')


@pytest.mark.parametrize(
    ("breaks", "words"), [("error", "the engine is gone"), ("cut", "closed before the answer was complete")]
)
def test_a_broken_stream_is_called_so(page, script: Script, breaks, words):
    script.breaks = breaks
    ready(page)
    page["run"].click()
    assert words in page.outcome()
    assert page.tokens() == ["["]
    assert page["run"].is_enabled()


def test_an_answer_that_its_tokens_end_is_called_so(page, script: Script):
    script.finish_reason = "length"
    ready(page)
    page["run"].click()
    assert page.outcome().startswith("Ended with the last token")


def test_a_refusal_is_shown_at_its_field(page):
    ready(page)
    page["max-tokens"].send_keys("2")
    page["run"].click()
    assert "the shortest answer needs" in page.outcome()
    assert page["max-tokens"].get_attribute("aria-invalid") == "true"


# --- the key ----------------------------------------------------------------------------------------------------------


def test_a_key_is_asked_for_and_kept_in_the_session_only(page, script: Script):
    script.key = "secret-of-this-test"
    page.open()
    page.until(lambda: page["connection-message"].is_displayed())
    assert page.script("return document.activeElement.id") == "key"
    assert page["connection-message"].text == "This server wants an API key: enter it above."
    page["key"].send_keys(script.key, Keys.ENTER)
    page.until(lambda: page["model"].is_enabled())
    assert not page["connection-message"].is_displayed()
    page.until(lambda: page["verdict"].text == "The server can enforce this.")
    page["run"].click()
    assert page.outcome() == "Complete."
    for language in ("curl", "python"):
        assert script.key not in page.call(language) and "GUIDED_API_KEY" in page.call(language)
    assert page.script("return [localStorage.length, document.cookie, Object.values(sessionStorage)]") == [
        0,
        "",
        [script.key],
    ]
    page.open()  # the same tab
    page.until(lambda: page["model"].is_enabled())


def test_a_wrong_key_is_refused(page, script: Script):
    script.key = "the right key of this test"
    page["key"].send_keys("the wrong key of this test", Keys.ENTER)
    page.until(lambda: page["connection-message"].is_displayed())
    assert page["connection-message"].text == "The server does not know this API key."
    assert page["key"].get_attribute("aria-invalid") == "true"


# --- by keyboard ------------------------------------------------------------------------------------------------------


def test_everything_by_keyboard(page, script: Script):
    """From the top of the page, with no pointer: another kind, its text, the answer, one token, the call."""

    def focused() -> str:
        return page.script("const e = document.activeElement; return e.id || e.value || e.tagName")

    def press(*keys: str) -> None:
        page.browser.switch_to.active_element.send_keys(*keys)

    def tab_to(name: str) -> None:
        passed = []
        while focused() != name:
            passed.append(focused())
            assert len(passed) < 40, f"{name} is not reached: {passed}"
            press(Keys.TAB)

    tab_to("json")
    press(Keys.ARROW_RIGHT)
    assert focused() == "regex"
    tab_to("editor")
    press(MODIFIER + "a")
    press("[0-9]+ EUR")
    page.until(lambda: page["verdict"].text == "The server can enforce this.")
    tab_to("prompt")
    press(Keys.CONTROL + Keys.ENTER)
    assert page.outcome() == "Complete."
    assert script.requests[0]["guided_regex"] == "[0-9]+ EUR"
    tab_to("tokens")
    press(Keys.ARROW_RIGHT + Keys.ARROW_RIGHT)
    assert page["token-note"].text == 'Token 2 of 4: "1" · 10 allowed · 70 % left'
    chosen = page["tokens"].get_attribute("aria-activedescendant")
    assert page[chosen].get_attribute("aria-selected") == "true" and page[chosen].text == "1"
    tab_to("copy")
    press(Keys.ENTER)
    page.until(lambda: page["copied"].get_attribute("textContent"))

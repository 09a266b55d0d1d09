"""Light, dark, wide and narrow: what can be measured of it. The rest is looked at."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

# Pairs of text and ground that are read: everything that carries text, by selector.
READ = [
    ".bar h1", ".bar h1 span", ".connection label", "#model", ".panel h2", ".caption", ".segments input:checked + span",
    ".segments input:not(:checked) + span", "#editor", "#verdict", ".facts dt", ".facts dd", ".advice h3", ".advice button",
    ".advice li", "#run", "#run kbd", ".tokens .pressure-1", ".tokens .pressure-2", ".tokens .pressure-3", ".tokens .pressure-4",
    ".token-note", ".legend p", "#call", "#outcome",
]  # fmt: skip
CONTRAST = """
const over = ([r, g, b, a], [u, v, w]) => [r * a + u * (1 - a), g * a + v * (1 - a), b * a + w * (1 - a), 1];
const colour = (text) => { const n = text.match(/[\\d.]+/g).map(Number); return n.length === 3 ? [...n, 1] : n; };
const ground = (e) => {
  const layers = [];
  for (let at = e; at; at = at.parentElement) layers.push(colour(getComputedStyle(at).backgroundColor));
  return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
};
const opacity = (e) => (e ? Number(getComputedStyle(e).opacity) * opacity(e.parentElement) : 1);
const light = ([r, g, b]) => {
  const [x, y, z] = [r, g, b].map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
};
return arguments[0].map((selector) => {
  const e = document.querySelector(selector);
  if (!e) return [selector, 0];
  const behind = ground(e);
  const [r, g, b, a] = colour(getComputedStyle(e).color);
  const [one, other] = [light(over([r, g, b, a * opacity(e)], behind)), light(behind)];
  return [selector, (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05)];
});
"""
OVERFLOW = """
const page = document.documentElement;
const scrolls = (e) => e && (["auto", "hidden"].includes(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
const isOver = (e) => e.getBoundingClientRect().right > page.clientWidth + 0.5 && !scrolls(e.parentElement);
const seen = [...document.querySelectorAll("main *, header *")].filter((e) => !e.matches(".visually-hidden"));
return [page.scrollWidth - page.clientWidth, seen.filter(isOver).map((e) => e.id || e.outerHTML.slice(0, 80))];
"""
ADVISED = (
    '{"type": "object", "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["age"]}'
)


def show_an_answer(page, script) -> None:
    script.tokens = [("a", 0.8, 3), ("b", 0.3, 3), ("c", 0.05, 3), ("d", 0.005, 1), ("long " * 40, 1.0, 3)]
    page.type_constraint(ADVISED)
    page.until(lambda: page["advice"].is_displayed())
    page["run"].click()
    assert page.outcome() == "Complete."


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_stands_out(page, script, dark):
    """WCAG AA: 4.5 to 1."""
    page.open(dark=dark)
    show_an_answer(page, script)
    pale = {selector: ratio for selector, ratio in page.script(CONTRAST, READ) if ratio < 4.5}
    assert pale == {}
    brightness = [
        int(n) for n in re.findall(r"\d+", page.script("return getComputedStyle(document.body).backgroundColor"))
    ]
    assert (sum(brightness[:3]) < 200) is dark


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_an_error_stands_out(page, script, dark):
    page.open(dark=dark)
    page.type_constraint("{")
    page.until(page.marked)
    assert dict(page.script(CONTRAST, ["#verdict.bad"]))["#verdict.bad"] >= 4.5


@pytest.mark.parametrize("width", [320, 390, 768, 901, 1280, 1920])
def test_nothing_runs_off_the_page(page, script, width):
    page.open(width, 900)
    show_an_answer(page, script)
    for kind in ("json", "regex", "choice", "grammar", "none"):
        page.choose_kind(kind)
        over = page.script(OVERFLOW)
        assert over == [0, []], (kind, width)


def test_every_control_has_a_name_and_every_region_too(page, script):
    """As assistive technology sees it: Chromium's accessibility tree."""
    show_an_answer(page, script)
    nodes = page.browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    controls = {
        "button",
        "textbox",
        "combobox",
        "radio",
        "spinbutton",
        "listbox",
        "option",
        "link",
        "region",
        "img",
        "list",
    }
    roles, nameless = [], []
    for node in nodes:
        role = node.get("role", {}).get("value", "")
        if node.get("ignored") or role not in controls:
            continue
        roles.append(role)
        if not node.get("name", {}).get("value") and role not in ("img", "list"):
            nameless.append((role, node.get("properties")))
    assert nameless == []
    assert {"button", "textbox", "combobox", "radio", "spinbutton", "listbox", "option"} <= set(roles)
    headings = page.script("return [...document.querySelectorAll('h1, h2, h3')].map((h) => Number(h.tagName[1]))")
    assert headings[0] == 1 and headings.count(1) == 1 and all(b - a <= 1 for a, b in pairwise(headings))

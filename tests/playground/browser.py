"""A real headless Chromium, and the page as a person meets it: what it shows, what can be pressed."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

FLAGS = [
    "--headless",
    "--no-sandbox",  # tests run as root in containers, and only their own page is opened
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_SECONDS = 120
MODIFIER = Keys.CONTROL
Found = TypeVar("Found")


@contextmanager
def chromium() -> Iterator[webdriver.Chrome]:
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip(
            "Chromium and chromedriver are not installed: python scripts/fetch_programs.py installs them where it can"
        )
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = Options()
        options.binary_location = binary
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        browser = webdriver.Chrome(options=options, service=Service(driver))
        try:
            yield browser
        finally:
            browser.quit()


class Page:
    """The playground in a browser."""

    def __init__(self, browser: webdriver.Chrome, url: str) -> None:
        self.browser = browser
        self.url = url

    def open(self, width: int = 1280, height: int = 1000, *, dark: bool = False) -> None:
        """A fresh page: of what was typed before, nothing is left but the key, which stays in its tab."""
        self.browser.set_window_size(width, height)
        media = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        self.browser.get(self.url)
        self.until(lambda: self["editor"].get_attribute("value"))  # the first example: the page is at work

    def __getitem__(self, identity: str) -> WebElement:
        return self.browser.find_element("id", identity)

    def all(self, selector: str) -> list[WebElement]:
        return self.browser.find_elements("css selector", selector)

    def choose_kind(self, kind: str) -> None:
        self.browser.find_element("css selector", f"input[name=kind][value={kind}]").click()

    def type_constraint(self, text: str) -> None:
        """Replaces the text, as by paste: Chromium's driver types no characters beyond the basic plane."""
        self.script(
            "const [area, text] = arguments; area.value = text; area.dispatchEvent(new Event('input', {bubbles: true}))",
            self["editor"],
            text,
        )

    def until(self, found: Callable[[], Found]) -> Found:
        """What `found` gives as soon as it gives something. Raises TimeoutException."""
        return WebDriverWait(self.browser, PATIENCE_SECONDS, 0.05).until(lambda _: found())

    def verdict(self) -> str:
        """What is said of the constraint, once something is."""
        return self.until(lambda: (text := self["verdict"].text) and "checking" not in text and text)

    def marked(self) -> list[str]:
        """The parts of the constraint that are marked."""
        return self.script("return [...document.querySelectorAll('#editor-marks mark')].map((m) => m.textContent)")

    def outcome(self) -> str:
        return self.until(lambda: self["outcome"].text)

    def call(self, language: str) -> str:
        self.browser.find_element("css selector", f"input[name=language][value={language}]").click()
        return self.script("return document.getElementById('call').textContent")

    def tokens(self) -> list[str]:
        return self.script("return [...document.querySelectorAll('#tokens .token')].map((t) => t.textContent)")

    def script(self, code: str, *arguments: Any) -> Any:
        return self.browser.execute_script(code, *arguments)

    def complaints(self) -> list[str]:
        """What the browser found wrong: violations of the page's policy, uncaught errors; refusals by the server are not."""
        return [
            entry["message"]
            for entry in self.browser.get_log("browser")
            if not (
                entry["source"] == "network" and "Failed to load resource: the server responded" in entry["message"]
            )
        ]

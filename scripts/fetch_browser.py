"""Chromium and its driver, for the tests of the playground; knows no test.

    python scripts/fetch_browser.py

Installs Debian's packages where apt-get may. Where it may not, says so on stderr; the exit status stays 0, since the tests that need
a browser then skip and say so.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.fetch_deploy_tools import install_once

PACKAGES = {"chromium": "chromium", "chromedriver": "chromium-driver"}  # command -> Debian package


def main() -> None:
    for command, package in PACKAGES.items():
        problem = install_once(command, package)
        if problem is not None:
            print(f"fetch_browser: {package} is not installed: {problem}", file=sys.stderr)


if __name__ == "__main__":
    main()

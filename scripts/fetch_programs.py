"""Programs that tests start for real: Chromium with its driver for the playground, Redis for the shared cache; knows no test.

    python scripts/fetch_programs.py

Installs Debian's packages where apt-get may. Where it may not, says so on stderr; the exit status stays 0, since the tests that need
a program then skip and say so.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.fetch_deploy_tools import install_once

# Command -> Debian package.
PACKAGES = {"chromium": "chromium", "chromedriver": "chromium-driver", "redis-server": "redis-server"}
TIMEOUT_S = 180  # for each: a machine whose registry does not answer goes on without


def main() -> None:
    for command, package in PACKAGES.items():
        problem = install_once(command, package, TIMEOUT_S)
        if problem is not None:
            print(f"fetch_programs: {package} is not installed: {problem}", file=sys.stderr)


if __name__ == "__main__":
    main()

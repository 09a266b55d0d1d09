"""`python -m guided.cli`: the `guided` command where the project is not installed."""

import sys

from guided.cli import main

if __name__ == "__main__":
    sys.exit(main())

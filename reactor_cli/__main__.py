"""The console script `reactor`, and `python -m reactor_cli`."""

from __future__ import annotations

import sys

from reactor_cli import app


def main() -> None:
    """Run the command line and leave with its exit code."""
    sys.exit(app.main(sys.argv[1:]))


if __name__ == "__main__":
    main()

"""The console script `reactor`, and `python -m reactor_cli`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and leave with its exit code; Ctrl-C before there is anything to stop leaves with 130."""
    try:
        from reactor_cli import app

        code = app.main(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()

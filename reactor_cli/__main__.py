"""The console script `reactor`, and `python -m reactor_cli`."""

from __future__ import annotations

import sys


def refusal(platform: str) -> str | None:
    """Return the reason why Reactor cannot run on this `sys.platform`, None if it can."""
    if platform != "win32":
        return None
    return (
        "error: reactor runs on Linux and macOS, not on Windows itself\n"
        "hint: run it in WSL, the Windows Subsystem for Linux: `wsl --install`, then install reactor there"
    )


def main() -> None:
    """Run the command line and exit with its code; Ctrl-C during the imports exits with 130."""
    if why := refusal(sys.platform):
        print(why, file=sys.stderr)  # noqa: T201  (importing `console` could fail on Windows)
        sys.exit(2)
    try:
        from reactor_cli import app

        code = app.main(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()

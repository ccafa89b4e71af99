"""The console script `reactor`, and `python -m reactor_cli`."""

from __future__ import annotations

import sys


def refusal(platform: str) -> str | None:
    """Return why Reactor can't run on this `sys.platform`, None where it can."""
    if platform != "win32":
        return None
    return (
        "error: reactor runs on Linux and macOS, not on Windows itself\n"
        "hint: run it in WSL, the Windows Subsystem for Linux: `wsl --install`, then install reactor there"
    )


def main() -> None:
    """Run the command line and leave with its exit code; Ctrl-C before there is anything to stop leaves with 130."""
    if why := refusal(sys.platform):
        print(why, file=sys.stderr)  # noqa: T201  (before anything is imported that Windows lacks)
        sys.exit(2)
    try:
        from reactor_cli import app

        code = app.main(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()

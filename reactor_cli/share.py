"""`--share`: a public address for a local server, by a quick tunnel of cloudflared."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import threading
from collections.abc import Callable
from typing import IO

from reactor_runtime.errors import UsageError

PROGRAM = "cloudflared"
INSTALL = "brew install cloudflared, or https://developers.cloudflare.com/tunnel/downloads/"
ENDED_S = 3.0
# cloudflared requests a tunnel from the host `api`, and names it when that fails.
_ADDRESS = re.compile(r"https://(?!api\.)[a-z0-9-]+\.trycloudflare\.com")


def find_program() -> str:
    """Return the path of cloudflared. Raises UsageError if it is not installed."""
    found = shutil.which(PROGRAM)
    if found is None:
        raise UsageError(f"--share needs {PROGRAM}, which is not on the PATH", hint=f"install it: {INSTALL}")
    return found


class Tunnel:
    """Run cloudflared.

    Calls `on_address` with the public address and `on_failed` with its last line, both on a thread of its own.
    Ctrl-C in a terminal reaches cloudflared too: it then waits for the connections, which the server closes.
    """

    def __init__(
        self, program: str, url: str, *, on_address: Callable[[str], object], on_failed: Callable[[str], object]
    ) -> None:
        self._on_address = on_address
        self._on_failed = on_failed
        self._closing = False
        self._process = subprocess.Popen(
            [program, "tunnel", "--no-autoupdate", "--url", url],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        assert self._process.stderr is not None, "it is a pipe"
        self._reader = threading.Thread(target=self._read, args=(self._process.stderr,), name="tunnel", daemon=True)
        self._reader.start()

    def close(self) -> None:
        """End cloudflared, and wait until it has ended."""
        self._closing = True
        self._process.terminate()
        try:
            self._process.wait(ENDED_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(ENDED_S)

    def _read(self, lines: IO[str]) -> None:
        address = ""
        last = ""
        with lines:
            # A closed pipe would end cloudflared, so everything is read.
            for line in lines:
                last = line.strip() or last
                if not address and (found := _ADDRESS.search(line)):
                    address = found[0]
                    self._on_address(address)
        if self._process.wait() and not self._closing:
            self._on_failed(last)


def qr_code(url: str) -> str:
    """Return a QR code of half blocks, for a terminal with a dark background or a light one."""
    import segno

    text = io.StringIO()
    segno.make(url, micro=False, error="l").terminal(out=text, border=2, compact=True)
    return text.getvalue().rstrip("\n")

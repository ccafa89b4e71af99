"""The server of `show`: a process that ends with the kernel that started it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import threading
from pathlib import Path

from reactor_cli import app
from reactor_runtime import manifest


def _end_with_kernel() -> None:
    """Stop the server when the kernel, which holds the other end of stdin, has ended."""
    with contextlib.suppress(OSError):
        while os.read(0, 1024):
            pass
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> int:
    """Serve the class that the first line of stdin names, with its options; then remove its folder, if given."""
    project, module, name, folder, options = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_kernel, name="kernel-watch", daemon=True).start()
    try:
        return app.serve_class(manifest.of_class(Path(project), module, name), json.loads(options))
    finally:
        # A killed kernel leaves the folder, so the server removes it.
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())

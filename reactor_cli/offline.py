"""How commands that run a model in this process, without a server, treat what it prints and its errors."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reactor_runtime.manifest import Manifest


@contextlib.contextmanager
def offline(checked: Manifest) -> Iterator[None]:
    """Send what a project prints to stderr, with the warnings of its log; the command prints a failure as its error.

    Errors that name the class point at the line of the manifest.
    """
    from reactor_runtime import manifest
    from reactor_runtime.logs.handler import configure_logs
    from reactor_runtime.testing.studio import log_no_failures

    with contextlib.redirect_stdout(sys.stderr), manifest.pointing_at(checked):
        configure_logs("warning")
        log_no_failures()
        yield

"""The limit of open descriptors, and the share of clients in it."""

from __future__ import annotations

import contextlib
import resource
import sys

# For engines, uploads, files of the page, and timers.
RESERVE = 128
# OPEN_MAX: the kernel refuses a higher limit.
MOST_ON_MACOS = 10_240


def raise_descriptor_limit() -> None:
    """Raise the soft limit of open descriptors to the hard limit; the engines inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard
    if sys.platform == "darwin" and hard == resource.RLIM_INFINITY:
        wanted = max(soft, MOST_ON_MACOS)
    # Where the kernel allows fewer, the soft limit remains.
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def descriptor_limit() -> int:
    """Return how many descriptors this process may open."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def descriptors_for_clients() -> int:
    """Return how many descriptors may be open while connections are accepted; the rest is a reserve."""
    limit = descriptor_limit()
    return limit - min(RESERVE, limit // 4)

"""Failures of a start that another start may not have: no descriptor, memory or process is left.

The engine reports one by its exit status, since it may fail before it can send a message.
"""

from __future__ import annotations

import errno
import os

EXIT_SHORTAGE = os.EX_TEMPFAIL
_SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EAGAIN})


def is_shortage(error: BaseException) -> bool:
    """Return whether another attempt may succeed without a change."""
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in _SHORTAGES)

"""The error of a message that the server can't get; apart from `channel`, whose imports the subreapers do without."""

from __future__ import annotations


class ServerGone(ConnectionError):
    """The server has closed its end of a channel."""

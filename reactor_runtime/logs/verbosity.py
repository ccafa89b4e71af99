"""The levels and formats of the log; apart from `handler.py`, which would slow down `reactor --help`."""

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")

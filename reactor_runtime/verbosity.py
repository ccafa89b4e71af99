"""The levels and formats of the log; apart from `logs`, which would slow down `reactor --help`."""

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")

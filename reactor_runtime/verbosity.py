"""How much the log may say, and in which form: apart from `logs`, as `reactor --help` shows it and is to be quick."""

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")

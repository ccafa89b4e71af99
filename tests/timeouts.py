"""How long a test waits for what must happen, before it fails: long enough for a busy machine, never a measurement."""

TIMEOUT_S = 90.0

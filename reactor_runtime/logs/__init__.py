"""Log lines: who writes them, their format, their limits."""

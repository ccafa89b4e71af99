"""Projects written for the 3.x API, after docs/api3.md alone, served unchanged."""

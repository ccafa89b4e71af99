"""Connections below the application: accept, limit, read messages, and the HTTP server."""

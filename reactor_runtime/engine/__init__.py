"""The model's process: load the author's class, serve sessions, and send its output to the server."""

"""Frames, sound and messages from a session to each of its clients."""

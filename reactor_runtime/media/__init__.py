"""Frames and sound as arrays and as files, and when to show them. Pure: no clock, no loop, no sockets."""

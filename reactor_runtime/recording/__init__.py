"""Recordings of sessions: their entries, and the MCAP file that holds them."""

"""Counters, timings and traces."""

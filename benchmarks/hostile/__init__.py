"""Attacks on a server.

`python -m benchmarks.hostile` floods it with requests: the gate of a release. The other modules attack it with
connections, messages and models, each with limits of its own; `every.py` runs these in turn.
"""

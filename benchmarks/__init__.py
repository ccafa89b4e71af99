"""Benchmarks of the whole way of frames and events; `python -m benchmarks` runs them, `--help` lists them."""

"""Benchmarks of the whole path of frames and events; `python -m benchmarks` runs them, `--help` lists them."""

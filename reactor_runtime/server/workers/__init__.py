"""Engine processes: start, supervision, restart."""

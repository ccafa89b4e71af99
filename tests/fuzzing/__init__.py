"""Bytes of strangers for the functions that read them: some in each run of the tests, and for hours by `make fuzz`."""

"""Where workers run: the protocol of a placement, and the one on Ray."""

"""The seam between engine and server: typed messages over a socket pair, pixels in shared memory."""

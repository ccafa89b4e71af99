"""IPC between engine and server: typed messages over a socket pair, pixels and samples in shared memory."""

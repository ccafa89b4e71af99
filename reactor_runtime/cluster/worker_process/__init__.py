"""The process of a worker: the server of one session, which the front sends clients to."""

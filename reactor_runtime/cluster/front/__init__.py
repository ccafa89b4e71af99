"""The front: the page, the wait queue, and the way of clients to workers."""

"""Serves a model on several machines: a front with the page and the wait queue, and a worker for each loaded model."""

"""Admission, wait queue, slots and the sessions on them."""

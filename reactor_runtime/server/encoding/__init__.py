"""Encoding of bundles on threads, once per quality in use."""

"""Hosts, origins, tokens, proxies and TLS: which requests are accepted."""

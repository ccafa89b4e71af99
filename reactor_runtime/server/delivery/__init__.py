"""Delivery of bundles: playout at their due times, broadcast, and sending to each client."""

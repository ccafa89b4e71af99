"""Events, messages and state: what clients and model exchange besides frames and sound."""

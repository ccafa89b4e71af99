"""Connections below the application: Uvicorn's protocols with limits, TCP settings, streaming responses."""

"""HTTP and WebSocket endpoints: the page, media streams, uploads, status and metrics."""

"""The edge: HTTP and WebSocket, who may do what, frames paced, encoded once and sent to each client as it keeps up."""

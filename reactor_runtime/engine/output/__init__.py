"""Output of the model: checked, split, paced and sent to the server."""

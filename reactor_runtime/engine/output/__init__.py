"""Output of the model: checked, split, paced and handed to the server."""

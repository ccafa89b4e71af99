"""Media and files from clients on their way to the model."""

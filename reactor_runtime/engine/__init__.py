"""The model's process: the author's class, stepped between events, its output handed to the seam."""

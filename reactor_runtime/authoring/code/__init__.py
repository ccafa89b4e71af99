"""The author's code as Python sees it: annotations, locations in the source, and classes made dataclasses."""

"""The author's code as Python sees it: annotations, places in the source, and classes made dataclasses."""

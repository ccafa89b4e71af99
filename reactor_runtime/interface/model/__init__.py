"""The 3.x import path of `ModelContract`."""

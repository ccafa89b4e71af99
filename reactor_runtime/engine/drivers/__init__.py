"""One driver per authoring style, and what drivers share."""

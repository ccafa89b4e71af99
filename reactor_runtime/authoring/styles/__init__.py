"""The base classes of models, and the authoring styles."""

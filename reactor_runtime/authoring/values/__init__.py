"""The values that clients set and models send: types, limits, bindings, validation and JSON."""

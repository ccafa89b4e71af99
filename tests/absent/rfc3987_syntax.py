"""Takes the place of a package of JupyterLab: jsonschema makes 40 parsers of it, for formats that no test checks."""

raise ImportError("absent in tests")

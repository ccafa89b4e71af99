"""`python -m reactor_runtime.schema --path DIR --out FILE --version vX`: write the schema of a project.

`reactor schema` has more formats; this is the command of 3.x.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from reactor_runtime.errors import ReactorError
from reactor_runtime.schema import render


def main() -> int:
    """Write the document; return the exit code."""
    parser = argparse.ArgumentParser("python -m reactor_runtime.schema", description="Write the schema of a model.")
    parser.add_argument("--path", type=Path, default=Path(), metavar="DIR", help="the project; by default this one")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the file to write; by default stdout")
    parser.add_argument("--version", default="", help="the version in the document")
    options = parser.parse_args()
    try:
        text = json.dumps(render(options.path, version=options.version).to_openapi(), indent=2) + "\n"
        if options.out is None:
            sys.stdout.write(text)
        else:
            options.out.write_text(text, encoding="utf-8")
    except (ReactorError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code if isinstance(error, ReactorError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

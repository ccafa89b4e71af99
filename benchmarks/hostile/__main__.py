from __future__ import annotations

import sys

from benchmarks.hostile.gate import main

sys.exit(main())

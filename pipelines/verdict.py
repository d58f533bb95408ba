"""The DVC stage `verdict`, the last one: names the cells that failed unexpectedly, and exits 1 if there are any."""

import sys
from pathlib import Path

# Run this checkout's code, not the installed package: a DVC experiment runs in another checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from accelbench.stages.verdict import main

if __name__ == "__main__":
    sys.exit(main())

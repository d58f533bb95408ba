"""The DVC stage `retries`, run every time: lists the cells of each suite that `retry: failed` measures again."""

import sys
from pathlib import Path

# Run this checkout's code, not the installed package: a DVC experiment runs in another checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from accelbench.stages.list_retries import main

if __name__ == "__main__":
    sys.exit(main())

"""The DVC stage `environment`, run every time: writes environment.json if it has changed. Every sweep depends on it."""

import sys
from pathlib import Path

# Run this checkout's code, not the installed package: a DVC experiment runs in another checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from accelbench.stages.write_environment import main

if __name__ == "__main__":
    sys.exit(main())

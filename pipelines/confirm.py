"""The DVC stage `confirm`: measures the two best cells of the cheapest questions again, in turns, into confirmed/."""

import sys
from pathlib import Path

# Run this checkout's code, not the installed package: a DVC experiment runs in another checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from accelbench.stages.confirm import main

if __name__ == "__main__":
    sys.exit(main())

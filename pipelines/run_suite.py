"""The DVC stage `sweep@<suite>`: measures every cell of the suite that has no record in results/<suite>/."""

import sys
from pathlib import Path

# Run this checkout's code, not the installed package: a DVC experiment runs in another checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from accelbench.stages.run_suite import main

if __name__ == "__main__":
    sys.exit(main())

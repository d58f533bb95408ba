"""Runs a stage of dvc.yaml with this checkout's code: `pipelines/stage.py NAME [suite or data set]`."""

import sys
from pathlib import Path

# A DVC experiment runs in another checkout, so the installed package may be another one.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from accelbench.stages import main

if __name__ == "__main__":
    sys.exit(main())

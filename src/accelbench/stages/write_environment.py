"""The DVC stage `environment`, run every time: writes environment.json if it has changed. Every sweep depends on it."""

import json
import sys
from pathlib import Path

from accelbench.grid import fingerprint
from accelbench.project import ENVIRONMENT
from accelbench.schema import serialize


def main() -> int:
    """Writes the fingerprint of this machine and of the measuring code, unless the file has it already."""
    path = Path(ENVIRONMENT)  # DVC runs a stage in the folder of its dvc.yaml
    found = fingerprint.fingerprint()
    try:
        written = json.loads(path.read_text())
    except (OSError, ValueError):
        written = None
    if written != found:
        serialize.write_json(path, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())

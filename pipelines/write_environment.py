"""The DVC stage `environment`, run every time: writes environment.json if it has changed. Every sweep depends on it."""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Run this checkout's code, not the installed package: a DVC experiment runs in another checkout.
sys.path.insert(0, str(ROOT / "src"))

from accelbench.grid import fingerprint
from accelbench.project import ENVIRONMENT
from accelbench.schema import serialize


def main() -> None:
    """Writes the fingerprint of this machine and of this checkout's code, unless the file has it already."""
    path = ROOT / ENVIRONMENT
    found = fingerprint.fingerprint()
    try:
        written = json.loads(path.read_text())
    except (OSError, ValueError):
        written = None
    if written != found:
        serialize.write_json(path, found)


if __name__ == "__main__":
    main()

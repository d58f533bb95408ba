"""DVC's `always_changed` stage: writes environment.json, on which every sweep depends, when it has changed."""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# A DVC experiment runs in a checkout of its own: it must run that checkout's code.
sys.path.insert(0, str(ROOT / "src"))

from accelbench.grid import fingerprint
from accelbench.project import ENVIRONMENT
from accelbench.schema import serialize


def main() -> None:
    """Writes the fingerprint of this machine and of this checkout's code, unless it stands there already."""
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

"""The DVC stage `source@<name>`: `python -m accelbench.stages.list_source <name>` writes data/.sources/<name>.json."""

import sys

from accelbench.data import source
from accelbench.settings.params import data_settings


def main() -> int:
    """Runs the stage; returns its exit status."""
    return source.main(data_settings)


if __name__ == "__main__":
    sys.exit(main())

"""The DVC stage `source@<name>`: `python pipelines/list_source.py <name>` writes data/.sources/<name>.json."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from accelbench.data.source import main
from accelbench.settings.params import data_settings

if __name__ == "__main__":
    sys.exit(main(data_settings))

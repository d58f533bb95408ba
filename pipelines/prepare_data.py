"""The DVC stage `data@<name>`: `python pipelines/prepare_data.py <name>` writes data/<name>/."""

import sys
from pathlib import Path

# An experiment's checkout runs its own code, not the installed one.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

if __name__ == "__main__":
    # Here, since the processes that decode import this file, and need none of that.
    from accelbench.data.prepare import main
    from accelbench.settings.params import data_settings

    sys.exit(main(data_settings))

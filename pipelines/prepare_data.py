"""The DVC stage `data@<name>`: `python pipelines/prepare_data.py <name>` writes data/<name>/."""

import sys
from pathlib import Path

# Run this checkout's code, not the installed package: a DVC experiment runs in another checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

if __name__ == "__main__":
    # Imported here, because the processes that decode pictures import this file and don't need these modules.
    from accelbench.data.prepare import main
    from accelbench.settings.params import data_settings

    sys.exit(main(data_settings))

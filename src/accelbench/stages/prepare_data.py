"""The DVC stage `data@<name>`: `python -m accelbench.stages.prepare_data <name>` writes data/<name>/."""

import sys


def main() -> int:
    """Runs the stage; returns its exit status."""
    # Imported here, because the processes that decode pictures import this file and don't need these modules.
    from accelbench.data import prepare
    from accelbench.settings.params import data_settings

    return prepare.main(data_settings)


if __name__ == "__main__":
    sys.exit(main())

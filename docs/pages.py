"""Writes the pages that are made from the code: docs/columns.md and docs/settings.md."""

from pathlib import Path

import yaml

from accelbench.report import columns
from accelbench.settings import about

DOCS = Path(__file__).parent
CONF = DOCS.parent / "conf"


def pages() -> dict[str, str]:
    """The pages' names, and their texts."""
    config = yaml.safe_load((CONF / "config.yaml").read_text())
    defaults = {name: value for name, value in config.items() if isinstance(value, str) and "${" not in value}
    defaults |= {name: value for each in config["defaults"] if isinstance(each, dict) for name, value in each.items()}
    defaults |= {"model.name": defaults["model"]}
    return {"columns.md": columns.markdown(), "settings.md": about.markdown(CONF, defaults)}


if __name__ == "__main__":
    for name, text in pages().items():
        (DOCS / name).write_text(text)

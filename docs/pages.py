"""Writes the pages that are made from the code: docs/columns.md and docs/settings.md."""

from pathlib import Path

import yaml

from accelbench.report import columns
from accelbench.settings import about
from accelbench.settings.config import GROUPS

DOCS = Path(__file__).parent
CONF = DOCS.parent / "conf"


def pages() -> dict[str, str]:
    """The pages' names, and their texts."""
    choices = {group: sorted(path.stem for path in (CONF / group).glob("*.yaml")) for group in GROUPS}
    config = yaml.safe_load((CONF / "config.yaml").read_text())
    defaults = {name: value for name, value in config.items() if isinstance(value, str) and "${" not in value}
    defaults |= {next(iter(each)): next(iter(each.values())) for each in config["defaults"] if isinstance(each, dict)}
    defaults |= {f"{group}.name": defaults[group] for group in GROUPS if group in defaults}
    return {"columns.md": columns.markdown(), "settings.md": about.markdown(choices, defaults)}


if __name__ == "__main__":
    for name, text in pages().items():
        (DOCS / name).write_text(text)

"""Renders a page as HTML and as markdown."""

import base64
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from accelbench.report.page import Page

_BASE = Environment(
    loader=PackageLoader("accelbench.report"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
# A speed in doubt: a screen reader would skip the mark itself.
MARK = Markup(' <span role="img" aria-label="in doubt" title="in doubt">!</span>')
_BASE.filters["marked"] = lambda text: Markup(escape(text).replace(" !", MARK))
SCRIPTS = ("state.js", "charts.js", "card.js", "table.js", "viewer.js")


def html(page: Page, folder: Path) -> str:
    """One HTML file that embeds the pictures, which are already saved in `folder`."""
    pictures = {
        picture.path: "data:image/png;base64," + base64.b64encode((folder / picture.path).read_bytes()).decode()
        for picture in page.pictures
    }
    scripts = [Markup(_BASE.get_template(name).render()) for name in SCRIPTS]  # our own files: not escaped
    parts = {"page": page, "pictures": pictures, "scripts": scripts, "policy": _policy(scripts)}
    return _BASE.get_template("index.html").render(parts)


def _policy(scripts: Sequence[str]) -> str:
    """The content security policy: only these scripts run, none of their text is evaluated, and nothing is loaded."""
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def headline(page: Page) -> str:
    """The headline alone: a line of text for each of its lines."""
    return "".join(f"{line.topic}: {' '.join(line.text.split())}\n" for line in page.headline)


def markdown(page: Page) -> str:
    """The page in markdown, with relative links to the pictures."""
    environment = _BASE.overlay(autoescape=False, finalize=_escape)  # escapes all text that a template prints
    links = {picture.path: quote(picture.path) for picture in page.pictures}
    return environment.get_template("report.md").render(page=page, links=links)


def _escape(value: object) -> str:
    """Text that markdown shows unchanged, in table cells too."""
    text = str(value).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*\[\]|])", r"\\\1", " ".join(text.split()))

"""Sphinx' settings: `make docs` builds site/ from the pages of this folder."""

import json
import re
from pathlib import Path

project = "accelbench"
html_title = "accelbench"
html_theme = "furo"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["screens.py", "pages.py", "serving_bound.py", "conf.py", "wrong_ways.py"]
myst_heading_anchors = 3  # as GitHub has them
suppress_warnings = ["myst.header", "misc.highlighting_failure"]
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
highlight_language = "text"  # of blocks that name none: outputs

# The pages in the site's menu. They are not in index.md, where a reader of the plain Markdown would see them as code.
SECTIONS = {
    "Use": "your-own-network data sweeps engines devices generation python cluster",
    "Read": "reading-the-report comparing finding-the-best serving time-to-accuracy tracking",
    "Look up": "settings columns records",
    "Trust": "measuring studies",
    "Change": "architecture extending",
}


def add_menu(app, page: str, source: list[str]) -> None:
    """Adds the menu to the first page when Sphinx reads it."""
    if page == "index":
        for caption, pages in SECTIONS.items():
            source[0] += (
                "\n```{toctree}\n:hidden:\n:caption: " + caption + "\n\n" + "\n".join(pages.split()) + "\n```\n"
            )


# A page from disk may fetch no other: the search takes the texts for its excerpts from here.
FETCH = "window.fetch = url => Promise.resolve({text: () => Promise.resolve(pages[url.split('/').pop()])});"


def use_excerpts(app, page: str, *_) -> None:
    """Makes the search load the pages' texts."""
    if page == "search":
        app.add_js_file("pages.js")


def write_excerpts(app, error: Exception | None) -> None:
    """Writes the pages' texts, from which the search shows excerpts."""
    out = Path(app.outdir)
    texts = {path.name: re.search(r"<article.*</article>", path.read_text(), re.DOTALL) for path in out.glob("*.html")}
    pages = {name: text[0] for name, text in texts.items() if text}
    (out / "_static/pages.js").write_text(f"const pages = {json.dumps(pages)};\n{FETCH}\n")


def setup(app) -> None:
    """Sphinx calls it."""
    app.connect("source-read", add_menu)
    app.connect("html-page-context", use_excerpts)
    app.connect("build-finished", write_excerpts)

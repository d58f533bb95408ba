"""Sphinx' settings: `make docs` builds site/ from the pages of this folder."""

project = "accelbench"
html_title = "accelbench"
html_theme = "furo"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["screens.py", "pages.py", "conf.py"]
myst_heading_anchors = 3  # as GitHub has them
suppress_warnings = ["myst.header", "misc.highlighting_failure"]
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False

# The pages in the site's menu. They are not in index.md, where a reader of the plain Markdown would see them as code.
SECTIONS = {
    "Use": "sweeps your-own-network data python options which-engine engines devices hardware cluster",
    "Read": "reading-the-report comparing finding-the-best ci mlflow dvc",
    "Look up": "settings columns",
    "Trust": "measuring how-a-benchmark-lies studies",
    "Change": "architecture extending",
}


def add_menu(app, page: str, source: list[str]) -> None:
    """Adds the menu to the first page as it is read."""
    if page == "index":
        for caption, pages in SECTIONS.items():
            source[0] += (
                "\n```{toctree}\n:hidden:\n:caption: " + caption + "\n\n" + "\n".join(pages.split()) + "\n```\n"
            )


def setup(app) -> None:
    """Sphinx calls it."""
    app.connect("source-read", add_menu)

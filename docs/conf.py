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

"""Writes the data and the HTML template of the plot that `dvc plots show` makes.

The template contains Vega, because DVC's own template loads it from the internet. DVC copies the data unchanged into a
script of the page. So the data have only the plotted columns, and no characters that could end the script.
"""

from functools import cache
from pathlib import Path

import pandas as pd

from accelbench.errors import UserError, how_to_install
from accelbench.schema.serialize import writing

# The columns of cells.csv that .dvc/plots/throughput.json names.
_COLUMNS = """
suite mode engine protocol model device precision batch_size samples_per_s samples_per_s_low samples_per_s_high
"""
COLUMNS = _COLUMNS.split()
PANEL = ["suite", "mode"]
# Other settings. The column `options` has the ones in which cells of the same network differ.
_OPTIONS = """
arguments devices scaling steps asked_threads python library weights pipeline augment train_images xla_processes
channels_last compile freeze cuda_graphs flush_denormals allocator
"""
OPTIONS = _OPTIONS.split()
HARMLESS = str.maketrans("<>&", "‹›＆")
# The page may load nothing, and evaluates no text as code: Vega interprets the expressions of a plot.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
# DVC fills in scripts that call `vegaEmbed`. These calls are queued. A module that runs later loads Vega for them.
PAGE = Path(__file__).parent / "templates" / "dvc_plots.html"
VEGA_LITE = "5.20"  # DVC's templates need major release 5
EMBED = """
window.vegaEmbed = (place, plot, options) => vegaEmbed(place, plot, {...options, ast: true});
waiting.forEach(call => window.vegaEmbed(...call));
"""


def write(report: Path) -> None:
    """Writes throughput.csv, .dvc_plots.html and plots/about.txt into the folder `report`, which has cells.csv.

    Panels with a single cell are left out, unless all panels have a single cell.
    """
    # The file's name begins with a dot, since the page is a template: without DVC's scripts it is blank.
    every = pd.read_csv(report / "cells.csv", dtype=str, keep_default_na=False)
    drawn = every[every["samples_per_s"] != ""]
    several = drawn[drawn.duplicated(PANEL, keep=False)]
    cells = drawn if several.empty else several
    settings = cells[OPTIONS]
    differ = cells.groupby([*PANEL, "model"])[OPTIONS].transform("nunique") > 1
    words = settings.apply(lambda column: column.name + "=" + column).where(differ & (settings != ""), "")
    options = [" ".join(filter(None, row)) for row in words.itertuples(index=False)]
    cells = cells[COLUMNS].assign(options=options)
    with writing(report / "throughput.csv") as file:  # `writing` follows no link
        cells.map(lambda text: text.translate(HARMLESS)).to_csv(file, index=False)
    with writing(report / "plots" / "about.txt") as file:  # DVC warns of an output that is an empty folder
        file.write_text("The pictures that an extension of the report has drawn.\n")
    with writing(report / ".dvc_plots.html") as file:
        file.write_text(page(), encoding="utf-8")


@cache  # the page is equal for all reports, and takes seconds
def page() -> str:
    """Returns the HTML template of `dvc plots show`. Its placeholders stay, because DVC fills them in.

    Raises UserError: vl-convert-python (extra `dvc`) is missing.
    """
    try:
        import vl_convert
    except ImportError as error:
        raise UserError(f"DVC's plots need vl-convert-python: {how_to_install('dvc')}") from error
    bundle = vl_convert.javascript_bundle(EMBED, vl_version=VEGA_LITE).replace("</script", "<\\/script")
    return PAGE.read_text(encoding="utf-8").replace("POLICY", POLICY).replace("BUNDLE", bundle)

"""The HTML template of `dvc plots show` with Vega embedded: DVC's own template loads it from the internet."""

import vl_convert

# DVC fills in the plots and a line that refreshes the page. Each plot has a script that calls `vegaEmbed`. A module
# runs after these scripts, so their calls are queued until it has loaded Vega.
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
{refresh_tag}
<title>accelbench: DVC's plots</title>
<style>body { font-family: sans-serif; margin: 1.5em; }</style>
<script>const waiting = []; window.vegaEmbed = (...call) => waiting.push(call);</script>
<script type="module">BUNDLE</script>
</head>
<body>
{plot_divs}
</body>
</html>
"""
VEGA_LITE = "5.20"  # DVC's templates need major release 5
EMBED = "window.vegaEmbed = vegaEmbed; waiting.forEach(call => vegaEmbed(...call));"


def page() -> str:
    """The page, with DVC's placeholders."""
    return PAGE.replace(
        "BUNDLE", vl_convert.javascript_bundle(EMBED, vl_version=VEGA_LITE).replace("</script", "<\\/script")
    )

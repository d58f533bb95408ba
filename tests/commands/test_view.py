import os
import subprocess
import sys

from accelbench.cli import main


def test_it_opens_the_viewer_of_a_folders_report_in_the_browser(here):
    page = here / "runs" / "mine" / "report" / "index.html"
    page.parent.mkdir(parents=True)
    page.touch()
    browser = here / "browser"
    browser.write_text('#!/bin/sh\necho "$1" > opened\n')
    browser.chmod(0o755)
    words = [sys.executable, "-m", "accelbench.cli", "view", "runs/mine"]
    for display, said in (
        ({"DISPLAY": ":0"}, ""),
        ({}, "(no browser found on this machine: open the address in yours)\n"),
    ):
        (here / "opened").unlink(missing_ok=True)
        environment = {**os.environ, "BROWSER": f"{browser} %s", **display}
        done = subprocess.run(words, env=environment, check=True, capture_output=True, text=True)
        assert done.stdout == f"Viewer: {page.as_uri()}#viewer (left or p, right or n, Escape or q)\n{said}"
        opened = [path.read_text() for path in here.glob("opened")]
        assert opened == [f"{page.as_uri()}#viewer\n"] * bool(display)
    assert main(["view", "runs/none"]) == 2

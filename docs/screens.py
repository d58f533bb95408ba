"""`make screens`: regenerates the pictures and the command outputs in docs/, from a real run in this checkout.

It needs the results of `make repro`, chromium with its driver, and tmux. A ```console block of a page has commands
after `$`, each followed by its output. The commands are run in order, in this checkout, and the block is rewritten with
their outputs. They change params.yaml: use a clone.
"""

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

from PIL import Image
from rich.console import Console
from rich.text import Text
from selenium import webdriver
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.support.wait import WebDriverWait

DOCS = Path(__file__).parent
ROOT = DOCS.parent
IMAGES = DOCS / "images"
COLUMNS = 112
SUITE = "mnist_networks"
RESNET18 = "model=torchvision model.name=resnet18 mode=infer"
TERMINALS = {
    "one-cell": "accelbench model=cnn precision=bf16 batch_size=256",
    "doctor": "accelbench doctor",
    "wrong-word": "accelbench model=cnn device=cdu",
    "options": f"accelbench -m {RESNET18} batch_size=16 channels_last=false,true tracking=none",
    "compare": 'accelbench compare --fail-if slower:5% --run "model=mlp mode=infer" "model=mlp mode=infer threads=1"',
    "search": f"accelbench best --search --budget 1m {RESNET18} precision=fp32,bf16 batch_size=1,8 threads=1,2",
}
# Picture -> the part of the report's page that it shows, as a CSS selector.
QUESTION = ".question:has([data-title='{}'])"
SECTIONS = {
    "all-cells": ".scroll:has(> #every)",
    "times": f".suite:has([data-folder={SUITE}]) > section",
    "devices": QUESTION.format("Which device?"),
    "batches": QUESTION.format("Which batch size?"),
    "engines": QUESTION.format("Which engine?"),
    "phases": QUESTION.format("Where does the time go?"),
    "limits": QUESTION.format("How near to the limit?"),
}
NOTEBOOK = """
import accelbench, torch
network = torch.nn.Sequential(torch.nn.Linear(784, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
print(accelbench.measure(network, torch.randn(64, 784), mode="infer")._repr_html_())
"""
PAGE = """<html><body style="margin:0;background:#fff"><pre id="screen" style="display:inline-block;
margin:0;padding:14px;font:14px/1.35 'DejaVu Sans Mono',monospace;color:#222">{code}</pre></body></html>"""


def main() -> None:
    """Makes the parts named on the command line, or all."""
    makers = {
        "report": report,
        "plots": plots,
        "notebook": notebook,
        "mlflow": mlflow,
        "terminal": terminal,
        "outputs": outputs,
    }
    parser = argparse.ArgumentParser(prog="docs/screens.py", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"{', '.join(makers)}; all of them by default")
    for part in parser.parse_args().parts or makers:
        if part not in makers:
            parser.error(f"{part}: unknown part. Choose from: {', '.join(makers)}")
        makers[part]()


def report() -> None:
    """Saves the report's first screen and parts of its page."""
    with browser(1400, 1000) as page:
        page.get((ROOT / "report/index.html").as_uri())
        save(page, "report")
        for name, selector in SECTIONS.items():
            save_part(page, selector, name)


def plots() -> None:
    """Saves the page of DVC's plots."""
    with tempfile.TemporaryDirectory() as folder, browser(930, 900) as page:
        subprocess.run(["dvc", "plots", "show", "-o", folder], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        page.get(Path(folder, "index.html").as_uri())
        time.sleep(3)  # it draws its charts one after another
        save(page, "dvc-plots")


def notebook() -> None:
    """Saves what a notebook shows of a measurement."""
    done = subprocess.run([sys.executable, "-c", NOTEBOOK], check=True, stdout=subprocess.PIPE, text=True)
    show(
        f'<div id="screen" style="display:inline-block;padding:14px;font:14px sans-serif">{done.stdout}</div>',
        "notebook",
    )


def mlflow() -> None:
    """Saves a picture of MLflow's saved view of a suite."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = ["accelbench", "ui", "--no-browser", "--port", str(port)]
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        newest = server.stdout.readline().removeprefix("MLflow: ").strip()
        asked = f"http://127.0.0.1:{port}/api/2.0/mlflow/experiments/get-by-name?experiment_name=accelbench/{SUITE}"
        with build_opener(ProxyHandler({})).open(asked) as answer:
            number = json.load(answer)["experiment"]["experiment_id"]
        address = re.sub(r"/experiments/\d+/", f"/experiments/{number}/", newest)
        with browser(1600, 1150) as page:
            page.get(address)
            WebDriverWait(page, 60).until(lambda page: page.find_elements("css selector", ".js-plotly-plot .main-svg"))
            for button in page.find_elements("css selector", "[data-component-id='mlflow.assistant.chat_panel.close']"):
                button.click()  # MLflow opens its assistant once, unasked
            time.sleep(5)  # MLflow draws its charts one after another
            save(page, "mlflow")
    finally:
        server.terminate()
        server.wait()


def terminal() -> None:
    """Saves a picture of each terminal in TERMINALS."""
    for name, command in TERMINALS.items():
        text = Text.from_ansi(screen_of(command))
        text.rstrip()
        console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"))  # noqa: SIM115
        console.print(Text.assemble(("$ ", "bold"), (command, "bold"), "\n", text), soft_wrap=True)
        code = console.export_html(inline_styles=True, code_format="{code}")
        show(PAGE.format(code=code), name)


def screen_of(command: str) -> str:
    """The contents of a terminal after a command has ended, with colours as escape sequences."""
    tmux = ["tmux", "-L", "accelbench-screens"]
    words = f"cd {ROOT} && clear && {command}; tmux -L accelbench-screens wait-for -S done; sleep 600"
    subprocess.run([*tmux, "new-session", "-d", "-x", str(COLUMNS), "-y", "40", words], check=True)
    try:
        subprocess.run([*tmux, "wait-for", "done"], check=True, timeout=600)
        return subprocess.run([*tmux, "capture-pane", "-e", "-p"], check=True, capture_output=True, text=True).stdout
    finally:
        subprocess.run([*tmux, "kill-server"], check=True)


def outputs() -> None:
    """Rewrites the console blocks of every page."""
    for path in sorted(DOCS.glob("*.md")):
        text = path.read_text()
        made = re.sub(
            r"```console\n(.*?)```", lambda block: f"```console\n{run_block(block[1])}```", text, flags=re.DOTALL
        )
        if made != text:
            path.write_text(made)
            print(f"{path.relative_to(ROOT)}: new outputs")


def run_block(block: str) -> str:
    """The block with the new outputs of its commands; exits if one fails, so that no page shows an error."""
    made = []
    for command in re.findall(r"^\$ (.*)$", block, re.MULTILINE):
        done = subprocess.run(
            command,
            shell=True,
            cwd=ROOT,
            env={**os.environ, "COLUMNS": str(COLUMNS), "NO_COLOR": "1", "DVC_PAGER": "cat"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            raise SystemExit(f"{command}: exit status {done.returncode}\n{done.stdout}")
        shown = re.sub(r".*\r", "", done.stdout).replace(f"file://{ROOT}", "file:///...")
        shown = shown.replace(f"{ROOT}/", "").strip("\n")
        made.append(f"$ {command}\n{shown}\n")
        print(made[-1], flush=True)
    return "\n".join(made)


@contextmanager
def browser(width: int, height: int) -> Iterator[WebDriver]:
    """Chromium without a window, of the given size in pixels."""
    options = webdriver.ChromeOptions()
    flags = "--headless=new --no-sandbox --disable-gpu --no-first-run --hide-scrollbars --disable-background-networking"
    for flag in [*flags.split(), "--disable-component-update", "--disable-sync", f"--window-size={width},{height}"]:
        options.add_argument(flag)
    page = webdriver.Chrome(options)
    try:
        page.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )
        yield page
    finally:
        page.quit()


def show(html: str, name: str) -> None:
    """Saves the element `screen` of a page."""
    with browser(1200, 900) as page, tempfile.NamedTemporaryFile("w", suffix=".html") as file:
        file.write(html)
        file.flush()
        page.get(f"file://{file.name}")
        save_part(page, "#screen", name)


def save_part(page: WebDriver, selector: str, name: str) -> None:
    """Saves one element of the page."""
    path, element = IMAGES / f"{name}.png", page.find_element("css selector", selector)
    page.execute_script("arguments[0].scrollIntoView()", element)
    time.sleep(1)  # parts far below are laid out when they come near
    element.screenshot(str(path))
    keep(path, name)


def save(page: WebDriver, name: str) -> None:
    """Saves what the browser shows."""
    path = IMAGES / f"{name}.png"
    page.save_screenshot(str(path))
    keep(path, name)


def keep(path: Path, name: str) -> None:
    """Writes the picture with 256 colours, which halves the file size."""
    target = IMAGES / f"{name}.png"
    Image.open(path).convert("RGB").quantize(256).save(target, optimize=True)
    print(f"{target.relative_to(ROOT)}: {target.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    sys.exit(main())

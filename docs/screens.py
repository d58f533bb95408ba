"""`make screens`: makes the pictures of docs/images/ and the printed outputs of the pages with this checkout's code.

It needs the results of `make repro`, chromium with its driver, and tmux. It takes some 18 minutes. It works in a clone,
and changes only pictures, pages and docs/images/drawn.json in this folder. If a picture fails, the others are made, and
its name is printed at the end (exit status 1). `--older` makes only what was made by older code.

A ```console block has commands after `$`, each followed by its output. Commands of index.md run in an empty folder with
the page's nets.py. Commands of other pages run in the clone.
"""

import argparse
import ast
import atexit
import hashlib
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from urllib.parse import quote
from urllib.request import ProxyHandler, build_opener

from PIL import Image
from rich.console import Console
from rich.text import Text
from selenium import webdriver
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.support.wait import WebDriverWait

from accelbench.commands.command import NAMES, PLACES

DOCS = Path(__file__).parent
ROOT = DOCS.parent
IMAGES = DOCS / "images"
DRAWN = IMAGES / "drawn.json"  # picture or page -> digest of the code that made it
COLUMNS = 112
LIMIT_S, COMMAND_S = 840, 400  # no picture is begun later than this; time limit of a command
SUITE = "mnist_networks"
RESNET18 = "model=torchvision model.name=resnet18 mode=infer"
TERMINALS = {
    "first": f"accelbench -m {RESNET18} precision=fp32,bf16 batch_size=1,8",
    "one-cell": "accelbench model=cnn precision=bf16 batch_size=256",
    "doctor": "accelbench doctor",
    "wrong-word": "accelbench model=cnn device=cdu",
    "options": f"accelbench -m {RESNET18} batch_size=16 channels_last=false,true tracking=none",
    "compare": 'accelbench compare --fail-if slower:5% --run "model=mlp mode=infer" "model=mlp mode=infer threads=1"',
    "search": f"accelbench best --search --budget 2m {RESNET18} precision=fp32,bf16 batch_size=1,8 threads=1,2",
}
FAILING = {"wrong-word": 2, "compare": 1}  # their exit statuses
# Picture -> the part of the report's page that it shows, as an XPath.
QUESTION = "//section[contains(@class, 'question')][h2='{}']"
SECTIONS = {
    "report": "",  # what is on the first screen
    "all-cells": "//*[@id='every']/..",
    "times": f"//section[.//*[@data-folder='{SUITE}']]/details/section",
    "devices": QUESTION.format("Which device?"),
    "batches": QUESTION.format("Which batch size?"),
    "engines": QUESTION.format("Which engine?"),
    "phases": QUESTION.format("Where does the time go?"),
    "limits": QUESTION.format("How near to the limit?"),
    "target": QUESTION.format("How long to the target?"),
}
PAGE = """<html><body style="margin:0;background:#fff"><pre id="screen" style="display:inline-block;
margin:0;padding:14px;font:14px/1.35 'DejaVu Sans Mono',monospace;color:#222">{code}</pre></body></html>"""
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
KEPT = ("results", "confirmed", "data", "report", "retries", "ceilings.json", "environment.json", "dvc.lock")
# The code that prints or draws them. A Python file stands for itself and for the modules that it imports, except those
# of `MEASURES`.
PACKAGE = "src/accelbench"
MEASURES = {"engines", "measuring", "judging", "isolation", "data", "devices", "stats", "schema", "serving"}
OF_PAGE = (f"{PACKAGE}/report/build.py", f"{PACKAGE}/report/templates", "studies")
OF_MLFLOW = (f"{PACKAGE}/sinks/mlflow_fields.py", f"{PACKAGE}/sinks/ui.py", f"{PACKAGE}/sinks/view.json")
OF_BOUND = ("docs/serving_bound.py", f"{PACKAGE}/stats/request_latencies.py")
OF_DVC = (f"{PACKAGE}/report/dvc_plots.py", f"{PACKAGE}/report/templates/dvc_plots.html", ".dvc/plots")


def of_terminal(commands: str) -> tuple[str, ...]:
    """Returns the code that prints the output of commands. DVC's commands show what a report has written."""
    found = set()
    for program, word in re.findall(r"^\$ (accelbench|dvc) (\S+)", commands, re.MULTILINE):
        run_it = f"{PACKAGE}/commands/{PLACES.get(word, PLACES[NAMES[0]])}.py"
        found |= {f"{PACKAGE}/cli.py", run_it} if program == "accelbench" else {f"{PACKAGE}/report/build.py"}
    return tuple(sorted(found))


def main() -> int:
    """Makes the pictures and pages named on the command line, or all. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="docs/screens.py", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"{', '.join(JOBS)}; all of them by default")
    parser.add_argument("--older", action="store_true", help="only those that older code made")
    chosen = parser.parse_args()
    names = chosen.names or list(JOBS)
    if wrong := set(names) - set(JOBS):
        parser.error(f"{', '.join(wrong)}: unknown. Choose from: {', '.join(JOBS)}")
    if chosen.older:
        by_older = older()
        names = [name for name in names if name in by_older]
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    start = time.monotonic()
    failed = []
    for name in names:
        begin = time.monotonic()
        try:
            if begin - start > LIMIT_S:
                raise TimeoutError("no time was left")
            made_by = digest(name)
            JOBS[name][0]()
            if digest(name) != made_by:
                raise RuntimeError("its code was changed meanwhile: make it again")
        except Exception as error:  # whatever it is, the others are made
            failed.append(f"{name}: {type(error).__name__}: {str(error).strip()[:400]}")
            print(f"{failed[-1]}\n{name}: not made, after {time.monotonic() - begin:.0f} s", flush=True)
        else:
            drawn = json.loads(DRAWN.read_text())
            write(DRAWN, json.dumps(drawn | {name: made_by}, indent=1) + "\n")
            print(f"{name}: made in {time.monotonic() - begin:.0f} s", flush=True)
    print(f"{time.monotonic() - start:.0f} s in all")
    if failed:
        print("Not made:", *failed, sep="\n  ")
    return int(bool(failed))


def digest(name: str) -> str:
    """Returns the digest of the code that now makes a picture or page."""
    found = hashlib.sha256()
    for path in reached(JOBS[name][1]):
        source = path.read_bytes()
        found.update(path.relative_to(ROOT).as_posix().encode() + b"\0")
        found.update(parsed(source)[0] if path.suffix == ".py" else source)
    return found.hexdigest()[:16]


def reached(sources: Iterable[str]) -> list[Path]:
    """Returns the files, files in folders, and modules that these import. Leaves out the folders in `MEASURES`."""
    found: set[Path] = set()
    todo = [path for source in sources for path in sorted((ROOT / source).rglob("*.*")) or [ROOT / source]]
    while todo:
        path = todo.pop()
        if path not in found and path.is_file() and "__pycache__" not in path.parts:
            found.add(path)
            todo += [ROOT / "src" / each for each in parsed(path.read_bytes())[1]] if path.suffix == ".py" else []
    return sorted(found)


@cache
def parsed(source: bytes) -> tuple[bytes, list[str]]:
    """Returns a module as text without docstrings, comments and layout, and the files that it may import."""
    tree = ast.parse(source)
    names = list[str]()
    for node in ast.walk(tree):  # imports within functions too
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = node.body[ast.get_docstring(node, clean=False) is not None :]
        elif isinstance(node, ast.ImportFrom):
            names += [str(node.module), *(f"{node.module}.{each.name}" for each in node.names)]
        elif isinstance(node, ast.Import):
            names += [each.name for each in node.names]
    parts = [name.split(".") for name in names if name.startswith("accelbench.")]
    modules = ["/".join(each) for each in parts if each[1] not in MEASURES]
    return repr(plain(tree)).encode(), [module + end for module in modules for end in (".py", "/__init__.py")]


def plain(node: object) -> object:
    """Returns a syntax tree as lists. Leaves out empty fields, since newer releases of Python have more of them."""
    if isinstance(node, ast.AST):
        fields = [(name, plain(value)) for name, value in ast.iter_fields(node) if value is not None and value != []]
        return [type(node).__name__, fields]
    return [plain(each) for each in node] if isinstance(node, list) else node


def older() -> list[str]:
    """Returns the pictures and pages that were made by other code than this."""
    drawn = json.loads(DRAWN.read_text())
    return [name for name in JOBS if drawn.get(name) != digest(name)]


@cache
def report() -> Path:
    """Builds the report of the results with this code, and returns its folder."""
    sys.path.insert(0, str(ROOT))  # for the studies
    from accelbench.report.build import build
    from accelbench.report.read import read_all
    from accelbench.settings import params

    costs = params.load(ROOT).costs
    extension = params.report_extension(ROOT)
    out = scratch() / "report"
    sweeps = read_all(ROOT / "results", costs, params.suite_names(ROOT))
    build(sweeps, ROOT / "results", out, costs, extension=extension)
    return out


@cache
def scratch() -> Path:
    """Makes a folder, which is removed at the end."""
    made = Path(tempfile.mkdtemp(prefix="accelbench-screens-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


@cache
def clone() -> Path:
    """Clones this checkout with its results, as after `make repro` and a commit of dvc.lock. Returns the folder."""
    made = scratch() / "accelbench"
    shutil.rmtree(made, ignore_errors=True)  # of a call that failed half-way
    run(f"git clone --quiet '{ROOT}' '{made}'", scratch())
    kept = [name for name in KEPT if (ROOT / name).exists()]
    run(f"cp -r {' '.join(kept)} '{made}'", ROOT)
    if (made / "dvc.lock").exists():
        run(f"dvc cache dir --local '{ROOT}/.dvc/cache' && git config user.name x && git config user.email x@x", made)
        run("git add dvc.lock && git commit -q --allow-empty -m 'What was measured'", made)
    return made


def part(name: str) -> None:
    """Saves the first screen of the report's page, or a part of the page."""
    with browser(1400, 1000) as page:
        page.get((report() / "index.html").as_uri())
        if SECTIONS[name]:
            page.execute_script("document.querySelectorAll('.more').forEach(fold => { fold.open = true; })")
        save(page, name, SECTIONS[name])


def requests() -> None:
    """Saves the report's question about requests, after the search of serving.md. Runs the search if it has not run."""
    searches = partial((clone() / "runs").glob, "*-serve")
    if not any(searches()):
        outputs(DOCS / "serving.md")
    searched = max(searches())
    run(f"accelbench report '{searched}'", clone())
    with browser(1100, 1000) as page:
        page.get((searched / "report/index.html").as_uri())
        save(page, "requests", QUESTION.format("How many requests per second?"))


def serving_bound() -> None:
    """Saves the picture of two rules for a percentile in a queue."""
    run(f"'{sys.executable}' docs/serving_bound.py", ROOT)


def figure() -> None:
    """Saves the picture of the gains."""
    run(f"accelbench figure results --out '{scratch()}/figure.png'", clone())
    write(IMAGES / "figure.png", smaller(scratch() / "figure.png", 1400))


def dvc_plots() -> None:
    """Saves the page of DVC's plots."""
    run(f"dvc plots show -o '{scratch()}/dvc_plots'", ROOT)
    with browser(930, 900) as page:
        page.get((scratch() / "dvc_plots/index.html").as_uri())
        time.sleep(3)  # it draws its charts one after another
        save(page, "dvc-plots")


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
        with build_opener(ProxyHandler({})).open(asked, timeout=60) as answer:
            number = json.load(answer)["experiment"]["experiment_id"]
        address = re.sub(r"/experiments/\d+/", f"/experiments/{number}/", newest)
        with browser(1400, 900) as page:
            page.get(address)
            WebDriverWait(page, 60).until(lambda page: len(page.find_elements("css selector", ".ag-row")) > 9)
            time.sleep(3)
            save(page, "mlflow")
    finally:
        server.terminate()
        server.wait(timeout=30)


def terminal(name: str) -> None:
    """Saves a picture of a terminal after a command of TERMINALS has ended."""
    tmux = ["tmux", "-L", f"accelbench-screens-{os.getpid()}"]
    command = TERMINALS[name]
    status = scratch() / "status"
    words = f"cd '{clone()}' && clear && {command}; echo $? > '{status}'; {' '.join(tmux)} wait-for -S done; sleep 600"
    subprocess.run([*tmux, "new-session", "-d", "-x", str(COLUMNS), "-y", "40", words], check=True)
    try:
        subprocess.run([*tmux, "wait-for", "done"], check=True, timeout=COMMAND_S)
        taken = subprocess.run([*tmux, "capture-pane", "-e", "-p"], check=True, capture_output=True, text=True).stdout
    finally:
        subprocess.run([*tmux, "kill-server"], check=True)
    if int(status.read_text()) not in (0, FAILING.get(name, 0)):
        raise RuntimeError(f"{command}: exit status {status.read_text()}")
    text = Text.from_ansi(taken)
    text.rstrip()
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(Text.assemble((f"$ {command}\n", "bold"), text), soft_wrap=True)
    show(PAGE.format(code=console.export_html(inline_styles=True, code_format="{code}")), name)


def outputs(path: Path) -> None:
    """Rewrites the console blocks of a page, all of them or none."""
    text = path.read_text()
    folder = clone()
    variables = {}
    if "$ dvc" in text and not (folder / "dvc.lock").exists():
        raise FileNotFoundError("no dvc.lock: first, make repro")
    if path.name == "index.md":  # what a new user has: only the network, and no probed speeds
        folder = scratch() / "new"
        folder.mkdir(exist_ok=True)
        (folder / "nets.py").write_text(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0])
        variables = {"XDG_CACHE_HOME": str(folder / "cache")}
    made = CONSOLE.sub(lambda block: f"```console\n{run_block(block[1], folder, variables)}```", text)
    write(path, made)


def run_block(block: str, folder: Path, variables: dict[str, str]) -> str:
    """Returns the block with the new outputs of its commands. Raises RuntimeError if a command fails."""
    made = []
    for command in re.findall(r"^\$ ((?:.*\\\n)*.*)$", block, re.MULTILINE):
        shown = run(command, folder, variables=variables)
        shown = re.sub(r"^Waiting for another measurement .*\n|.*\r(?!\n)| +$", "", shown, flags=re.MULTILINE)
        shown = shown.replace(f"file://{folder}", "file:///...").replace(f"{folder}/", "").strip("\n")
        made.append(f"$ {command}\n{shown}\n")
        print(made[-1], flush=True)
    return "\n".join(made)


def run(command: str, folder: Path, stdin: str = "", variables: dict[str, str] | None = None) -> str:
    """Returns what a command prints. Raises RuntimeError if it fails, and TimeoutExpired after `COMMAND_S`."""
    plain = {"COLUMNS": str(COLUMNS), "NO_COLOR": "1", "DVC_PAGER": "cat", **(variables or {})}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    own = {"shell": True, "cwd": folder, "env": os.environ | plain, "start_new_session": True}
    with subprocess.Popen(command, **own, **pipes) as done:
        try:
            shown, _ = done.communicate(stdin, timeout=COMMAND_S)
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(done.pid, signal.SIGKILL)
            raise
    if done.returncode:
        raise RuntimeError(f"{command}: exit status {done.returncode}\n{shown[-2000:]}")
    return shown


@contextmanager
def browser(width: int, height: int) -> Iterator[WebDriver]:
    """Yields Chromium without a window. Its page has the given size in pixels."""
    options = webdriver.ChromeOptions()
    flags = (
        "headless=new no-sandbox disable-gpu no-first-run hide-scrollbars disable-background-networking disable-sync"
    )
    for flag in [*flags.split(), "disable-component-update", f"window-size={width},{height}"]:
        options.add_argument(f"--{flag}")
    page = webdriver.Chrome(options)
    try:
        page.set_page_load_timeout(120)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        yield page
    finally:
        page.quit()


def show(html: str, name: str) -> None:
    """Saves the element `screen` of a page."""
    with browser(1200, 900) as page:
        page.get("data:text/html;charset=utf-8," + quote(html))
        save(page, name, "//*[@id='screen']")


def save(page: WebDriver, name: str, path: str = "") -> None:
    """Saves what the browser shows, or the element at an XPath."""
    taken = scratch() / f"{name}.png"
    if path:
        element = page.find_element("xpath", path)
        page.execute_script("arguments[0].scrollIntoView()", element)
        time.sleep(1)  # parts far below are laid out when they come near
        element.screenshot(str(taken))
    else:
        page.save_screenshot(str(taken))
    write(IMAGES / f"{name}.png", smaller(taken))


def smaller(taken: Path, width: int | None = None) -> bytes:
    """Returns the picture with 256 colours, which halves the file size. `width`: the new width in pixels."""
    image = Image.open(taken).convert("RGB")
    if width is not None:
        image = image.resize((width, round(image.height * width / image.width)))
    small = io.BytesIO()
    image.quantize(256).save(small, "png", optimize=True)
    return small.getvalue()


def write(path: Path, content: str | bytes) -> None:
    """Replaces a file as a whole."""
    made = path.with_name(f".{path.name}.new")
    made.write_bytes(content.encode() if isinstance(content, str) else content)
    made.replace(path)


# Picture or page -> what makes it, and the code that it shows. Slow ones come late; tracking.md changes the clone.
JOBS: dict[str, tuple[Callable[[], None], tuple[str, ...]]] = {
    **{name: (partial(part, name), OF_PAGE) for name in SECTIONS},
    "serving-bound": (serving_bound, OF_BOUND),
    "figure": (figure, (f"{PACKAGE}/report/figure.py",)),
    "dvc-plots": (dvc_plots, OF_DVC),
    "mlflow": (mlflow, OF_MLFLOW),
    **{name: (partial(terminal, name), of_terminal(f"$ {command}")) for name, command in TERMINALS.items()},
    **{
        path.name: (partial(outputs, path), of_terminal(path.read_text()))
        for path in sorted(DOCS.glob("*.md"))
        if CONSOLE.search(path.read_text())
    },
    "requests": (requests, OF_PAGE),  # after serving.md, whose search it shows
}
JOBS["tracking.md"] = JOBS.pop("tracking.md")  # it is the last

if __name__ == "__main__":
    sys.exit(main())

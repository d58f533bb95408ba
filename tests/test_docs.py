"""The commands, examples, links, paths and tables of README.md and docs/ are correct."""

import dataclasses
import logging
import re
import runpy
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from dvc.cli import parse_args
from omegaconf import OmegaConf

from accelbench.cli import main
from accelbench.data.prepare import describe
from accelbench.data.sets import find
from accelbench.isolation import hosts
from accelbench.isolation.hosts import Hosts
from accelbench.judging.row import summarise
from accelbench.report.export import EFFICIENCY
from accelbench.schema import json_schema, plan_file, record
from accelbench.schema.serialize import plain
from accelbench.settings import params
from fakes import faulty_host, give_ceilings, make_environment, make_project
from report.conftest import Maker

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "accelbench"
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("docs/*.md"), ROOT / "README.md"])
COMMANDS = ("best", "doctor", "report", "sync", "ui", "plan", "completion")
MAX_CELL = 120  # characters of a table's cell; a link counts by its text
# Files that a page has its reader write.
EXAMPLES = {"conf/data/stripes.yaml", "conf/model/tokens.yaml", "my_package/nets.py"}


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)


def commands():
    """Each command on the pages once: from shell and console blocks, and from the README's table.

    One whose words all stand before a = in others is slow.
    """
    seen, names = set(), set()
    for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]:
        text = path.read_text()
        scripts = "".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL)).replace("\\\n", " ")
        lines = scripts.splitlines() + re.findall(r"^\$ (.*)$", text, re.MULTILINE)
        if path.name == "README.md":
            lines += re.findall(r"^\|.*`(accelbench [^`]*)`", text, re.MULTILINE)
        for line in lines:
            for command in re.sub(r" +#.*| 2>&1.*", "", line).split(" && "):
                known = re.sub("h100|l40s", "gpu", " ".join(command.split()))  # the same jobs on two machines
                if known not in seen:
                    seen.add(known)
                    words = {word.partition("=")[0] for word in known.split()}
                    marks = [pytest.mark.slow] * (words <= names)
                    names |= words
                    yield pytest.param(command, id=f"{path.name}: {command}", marks=marks)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A project with records of the faulty engine and a user's network, under the names that the pages use."""
    root = make_project(tmp_path_factory.mktemp("measured"))
    for name in ("random", "cats_vs_dogs"):  # planning reads only the manifest, not the pictures
        (folder := root / "data" / name).mkdir()
        describe(find("random").obtain(name, "auto", root, folder, {}), name, folder)
    for folder in ("my_package", "pictures", "mine"):
        (root / folder).mkdir()
    network = "\n".join(blocks(page, "python")[0] for page in ("your-own-network.md", "serving.md"))
    (root / "my_package/__init__.py").write_text("from my_package.nets import *\n")
    for name in ("nets", "my_package/nets"):
        (root / f"{name}.py").write_text(f"{network}\n\nclass MyNet(nn.Module):\n    pass\n")
    (root / "conf/model/tokens.yaml").write_text(blocks("your-own-network.md", "yaml")[0])
    make_environment(root.parent / "new/.venv", timm="99.0")
    (root / ".venv").symlink_to(sys.prefix)
    for name in ("my_weights.safetensors", "my_images.npz"):  # planning reads neither
        (root / name).touch()
    give_ceilings(root)
    with pytest.MonkeyPatch.context() as patched:
        enter(root, patched)
        patched.setattr(hosts, "Hosts", lambda: Hosts(faulty_host))
        words = ["-m", "model=mlp", "mode=infer", "batch_size=8,16", "tracking=none", "out=runs/cluster/h100"]
        assert main(words) == 0
    for name in ("runs/cluster/l40s", "runs/mine", "results/mnist_networks", "A", "B"):
        shutil.copytree(root / "runs/cluster/h100", root / name)
    for found in plan_file.read_planned(root / "A"):
        for folder in ("B", "runs/cluster/l40s"):  # records of another time
            record.write(dataclasses.replace(found, started_at="2026-11-20T18:00:00.000+00:00"), root / folder)
    return root


def enter(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(sys, "argv", ["accelbench"])
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # Hydra adds one for --info


@pytest.mark.parametrize("command", list(commands()))
def test_every_command_of_the_pages_runs(command, measured, monkeypatch, capsys):
    enter(measured, monkeypatch)
    monkeypatch.setattr("accelbench.sinks.ui.serve", lambda root, port, open_browser: 0)  # never ends
    monkeypatch.setattr("accelbench.sinks.delivery.sync", lambda *_, **__: 0)
    program, *words = shlex.split(command.partition(" > ")[0])
    if program == "sbatch":
        program, *words = shlex.split(words[words.index("--wrap") + 1])
    if program == "make":
        targets = re.findall(r"^([a-z -]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert {word for word in words if "=" not in word} <= set(" ".join(targets).split())
    elif program == "dvc":
        understood_by_dvc(words)
    elif Path(program).name == "accelbench":
        for tried in harmless(words):
            assert main(tried) in ((0, 1, 2) if tried[0] == "compare" else (0,)), capsys.readouterr().err
    else:  # other tests run these, or they change the machine
        assert program in ("source", "sed", ".venv/bin/uv", "PYTHONPATH=src", "mkdir", "git", "head", "pip")


def harmless(words):
    """The command lines to run instead: commands that would measure are only planned."""
    # As many cells as it takes to plan.
    words = [word.replace("repeats=5", "repeats=1") for word in words if not word.startswith("hydra.")]
    words += ["model=mlp"] * ("suite=mnist_networks" in words)
    words += ["data=mnist"] * ("data=stripes" in words)  # which the page has its reader add
    name, asked = words[0], set(words)
    if name in ("bundle", "verify", "replay"):  # of records that there are; replay would measure
        Path("mine.zip").unlink(missing_ok=True)
        return [["bundle", "A", "--out", "mine.zip"], ["verify", "mine.zip"]]
    if words[:2] == ["compare", "--run"]:
        return [["plan", *shlex.split(side)] for side in words[2:4]]
    if asked & {"--search", "--serve", "--target", "--largest-batch"}:
        served = ["protocol=server"] * ("--serve" in words)
        served += ["protocol=target", "target.accuracy=0.9"] * ("--target" in words)
        return [["plan", *["-m"] * ("--largest-batch" not in words), *served, *(word for word in words if "=" in word)]]
    if name == "compare" and "--top" not in words and not Path(words[1]).is_dir():
        return [["compare", "A", "B", *words[3:]]]  # records of other machines and revisions
    instead = {
        "export": lambda: ["export", "A", *words[2:]],
        "merge": lambda: ["merge", "A", *words[words.index("--into") :]],
        "init": lambda: ["init", f"new/{words[1]}"],
        "figure": lambda: ["figure", "A", "--question", "batch", *words[words.index("--out") :][:2]],
        "bisect": lambda: ["plan", *words[words.index("--") + 1 :]],
        "compare": lambda: ["plan", "model=mlp"] if "--top" in words else words,
        **{each: lambda: [name, "--help"] for each in ("selfcheck", "view")},
    }
    if name in instead:
        return [instead[name]()]
    as_it_is = {"--cfg", "--info", "--help"} & asked or name in COMMANDS
    return [words if as_it_is else ["plan", *words]]


def understood_by_dvc(words):
    """Asserts that DVC has the command, and that the project has the stage and the parameters."""
    settings = OmegaConf.create(plain(params.load(ROOT)))
    line = " ".join(words)
    for stage, key in re.findall(r"(?:repro|run) ([a-z]\w*)@?(\S*)", line):
        assert stage in ("source", "data", "environment", "sweep", "report")
        assert key in ("", "stripes") or key in {"data": settings.data, "sweep": settings.suites}[stage]
    for sign, parent, key in re.findall(r"-S (\+?)(?:([\w.]+)\.)?(\w+)=.", line):
        assert bool(sign) != (key in (OmegaConf.select(settings, parent) if parent else settings)), key
    parse_args(words)


def test_every_page_is_in_the_menu_of_the_site():
    menu = " ".join(runpy.run_path(str(ROOT / "docs" / "conf.py"))["SECTIONS"].values()).split()
    assert sorted([*menu, "index"]) == sorted(path.stem for path in ROOT.glob("docs/*.md"))


def anchors(page):
    """What links to a heading of the page end in, as GitHub and the site form it."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_and_paths_of_a_page_lead_somewhere_and_no_cell_of_a_table_is_long(page):
    text = (ROOT / page).read_text()
    for link, anchor in re.findall(r"\]\(([^)#]*)(#[^)]+)?\)", text):
        target = (ROOT / page).parent / link if link else ROOT / page
        assert "://" in link or target.exists(), link
        assert not anchor or link.startswith("http") or anchor[1:] in anchors(target), f"{link}{anchor}"
    named = set(re.findall(r"(?<![\w/.-])(?:src|tests|conf|docs|pipelines|bench)/[\w./-]*\w", text))
    named |= {name for name in re.findall(r"`([\w/]+\.py)`", text) if "/" in name}
    assert {name for name in named if not any((folder / name).exists() for folder in (ROOT, PACKAGE))} <= EXAMPLES
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [cell.strip() for line in lines for cell in re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", line).split("|")]
    assert [cell for cell in cells if len(cell) > MAX_CELL] == []


def test_the_made_pages_are_what_the_code_makes():
    pages = runpy.run_path(str(ROOT / "docs/pages.py"))["pages"]()
    assert set(pages) == {"columns.md", "serving.md", "settings.md"}
    for name, text in pages.items():
        assert (ROOT / "docs" / name).read_text() == text, "run: python docs/pages.py"


@pytest.mark.slow
def test_the_pictures_and_printed_outputs_are_of_this_code():
    assert runpy.run_path(str(ROOT / "docs/screens.py"))["older"]() == [], "run: python docs/screens.py --older"


def test_every_column_is_explained_once_and_those_that_the_pages_name_exist():
    first_cells = re.findall(r"^\| (`.*?) \|", (ROOT / "docs/columns.md").read_text(), re.MULTILINE)
    explained = re.findall(r"`(\w+)`", " ".join(first_cells))
    columns = [*summarise(Maker().ok(Maker().cell(), 1000)), "cell", "num_processes", EFFICIENCY]
    assert sorted(explained) == sorted(columns)
    text = "".join(path.read_text() for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
    named = set(re.findall(r"`(\w+_(?:ms|mb|per_sample|per_s|share|shares|provenance))`", text))
    assert len(named) > 5
    assert named <= {*columns, "counts"}


def test_the_fields_that_the_pages_name_are_those_of_a_record():
    table = (ROOT / "docs/records.md").read_text().partition("| field | meaning |")[2].partition("\n\n")[0]
    names = re.findall(r"`([a-z_.]+)(?:\[\])?`", " ".join(line.split("|")[1] for line in table.splitlines()[2:]))
    schema = json_schema.record()
    parts = {"measurement": "Measurement", "environment": "Environment", "system": "SystemSeries", "data": "Data"}
    assert len(names) > 25
    for name in names:
        parent, _, field = name.rpartition(".")
        assert field in (schema["definitions"][parts[parent]] if parent else schema)["properties"], name

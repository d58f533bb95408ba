"""`accelbench run`, the default: measures one cell, or every combination; and all settings, for its help."""

import textwrap
from argparse import Namespace

from accelbench.commands.command import VERBOSE, Command, Context, flag, width
from accelbench.project import shown, workplace
from accelbench.settings.config import LIST, MAPPING, About, every_setting

KINDS = {"a whole number": "N", "a number": "X", "a text": "TEXT", LIST: "[...]", MAPPING: "{NAME: ...}"}
INDENT = 30  # columns before a meaning
EXAMPLES = """
examples:
  accelbench model=cnn precision=bf16 batch_size=256 mode=infer
  accelbench -m model=mlp,cnn batch_size=32,128
  accelbench -m engine=pytorch,keras model=mlp,lstm
  accelbench -m model=torchvision model.name=resnet18 compile=false,true
  accelbench model=transformers model.name=bert model.batch_args.seq_len=64
  accelbench model=custom model.target=my_package.nets.MyNet
  accelbench model=lightning model.target=my_package.LitNet
  accelbench plan suite=mnist_networks
  accelbench compare --run "model=cnn" "model=cnn precision=bf16"
"""


def settings() -> str:
    """Every setting, with its words and its meaning, and examples."""
    lines = [
        "settings (in a project, params.yaml has the sweeps that `dvc repro` runs;",
        "`accelbench --cfg job` prints every setting with its value)",
    ]
    section = None
    for each in every_setting(workplace().conf):
        if (found := each.name.partition(".")[0] if "." in each.name else "") != section or each.name == "mode":
            lines.append("")
        section = found
        lines += _lines(each)
    return "\n".join(lines) + "\n" + EXAMPLES


def _lines(setting: About) -> list[str]:
    name = f"  {setting.name}={'|'.join(setting.choices) or KINDS[setting.kind]}"
    words = textwrap.wrap(name.replace("|", "| "), width(), subsequent_indent=" " * 8, break_on_hyphens=False)
    words = [line.replace("| ", "|") for line in words]
    meaning = textwrap.wrap(setting.meaning, width() - INDENT, break_long_words=False)
    beside = len(words) == 1 and len(words[0]) < INDENT
    first = [f"{words[0]:<{INDENT}}{meaning.pop(0)}"] if beside else words
    return first + [" " * INDENT + line for line in meaning]


def _run(chosen: Namespace, context: Context) -> int:
    words = ["-m"] * chosen.multirun + chosen.words + [VERBOSE] * chosen.verbose
    if chosen.cfg is not None or chosen.resolve:
        from accelbench.settings.compose import compose

        compose([*(["--cfg", chosen.cfg] if chosen.cfg else []), *["--resolve"] * chosen.resolve, *words])
        return 0
    from accelbench.isolation.hosts import Hosts

    with Hosts() as hosts:
        from accelbench.cluster import dispatch
        from accelbench.settings.compose import cells_of, compose
        from accelbench.sweep import run as sweep
        from accelbench.sweep import terminal

        cells, options = cells_of(compose(words))

        def show(result: sweep.SweepResult) -> None:
            folder = shown(result.folder)
            if len(cells) == 1:
                (record,) = result.records
                is_told = record.user_error or record.sweep_id == result.sweep_id
                path = f"{folder}/{record.name}.json"
                terminal.show_card(record, path, context.console, says_why=not is_told, waited_s=result.waited_s)
            else:
                terminal.conclude(result, context.console)
                terminal.show_answer(result.records, folder, context.console, options.words)

        result = dispatch.run(cells, options, context.console, hosts=hosts, show=show)
    result.check_request(is_shown=True)
    return 1 if result.num_unexpected else 0


COMMAND = Command(
    name="run",
    summary="measure one cell, or with -m every combination of lists",
    run=_run,
    flags=(
        flag("-m", "--multirun", help="measure every combination of listed values"),
        flag("-v", "--verbose", help="show what the cells' libraries print, too"),
        flag("--cfg", metavar="job", help="print all settings of one run, and measure nothing"),
        flag("--resolve", help="with --cfg: print values instead of references to them"),
    ),
    epilog=settings,
    takes_settings=True,
    has_hydra_words=True,
)

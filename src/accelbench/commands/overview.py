"""What `accelbench --help` prints, and the settings and examples that `accelbench run --help` ends with."""

import textwrap
from collections.abc import Sequence

from accelbench.commands.command import Command, width
from accelbench.project import workplace
from accelbench.settings.about import LIST, MAPPING, About, every_setting

KINDS = {"a whole number": "N", "a number": "X", "a text": "TEXT", LIST: "[...]", MAPPING: "{NAME: ...}"}
INDENT = 30  # columns before a meaning
EXAMPLES = """
examples:
  accelbench model=cnn precision=bf16 batch_size=256 mode=infer
  accelbench -m model=mlp,cnn batch_size=32,128
  accelbench -m engine=lightning,keras model=mlp,lstm
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


def overview(commands: Sequence[Command]) -> str:
    """The help of `accelbench` itself: every command with its summary."""
    listed = "\n".join(f"  {command.name:<12}{command.summary}" for command in commands)
    return f"""\
accelbench measures how fast a model trains and infers, and what is fastest.

usage: accelbench [run] [-m] [name=value ...]
       accelbench COMMAND [flags]; `accelbench COMMAND --help` lists them
       accelbench --version

commands:
{listed}

settings, such as model=cnn batch_size=32: `accelbench run --help` lists them
exit status: 0 done; 1 a cell failed unexpectedly, or --fail-if; 2 a mistake
"""

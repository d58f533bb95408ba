"""The script in bash."""

import subprocess

from accelbench.commands.command import load_all
from accelbench.commands.project import script as made
from fakes import make_project

ASK_BASH = """
source {script}
compopt() {{ :; }}  # it works while a word is completed only
COMP_LINE={line!r} COMP_POINT=${{#COMP_LINE}}
read -ra COMP_WORDS <<< "${{COMP_LINE//=/ = }}"
[[ $COMP_LINE == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_accelbench
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
CASES = {
    "accelbench comp": {"compare", "completion", "compile="},
    "accelbench compare --f": {"--fail-if"},
    "accelbench plan chan": {"channels_last="},
    "accelbench mode=": {"train", "infer", "generate"},
    "accelbench -m precision=bf16": {"bf16", "bf16_mixed"},
    "accelbench -m device=cpu,xla": {"cpu,xla_cpu"},
    "accelbench engine.backend=": {"tensorflow"},
    "accelbench batch_size=": set(),
}


def test_bash_completes_words_and_lists(tmp_path):
    script = tmp_path / "script"
    script.write_text(made(load_all(), make_project(tmp_path / "project") / "conf"))
    for line, answers in CASES.items():
        asked = ASK_BASH.format(script=script, line=line)
        done = subprocess.run(["bash", "--norc", "-c", asked], capture_output=True, text=True, timeout=20)
        assert (done.stderr, set(done.stdout.split())) == ("", answers)

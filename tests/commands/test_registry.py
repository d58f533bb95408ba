import pytest

from accelbench.commands.registry import choose
from accelbench.errors import UserError


@pytest.mark.parametrize(
    ("words", "name", "rest"),
    [
        ([], "run", []),
        (["-m", "model=mlp,cnn"], "run", ["-m", "model=mlp,cnn"]),
        (["run", "model=mlp"], "run", ["model=mlp"]),
        (["plan", "--json"], "plan", ["--json"]),
        (["report", "runs/x"], "report", ["runs/x"]),
    ],
)
def test_the_first_word_names_the_command_or_it_is_run(words, name, rest):
    command, others = choose(words)
    assert (command.name, others) == (name, rest)


@pytest.mark.parametrize("words", [["repot"], ["run", "repot"], ["plan", "repot", "--help"]])
def test_any_other_word_is_refused_with_the_nearest_command(words):
    with pytest.raises(UserError, match="^repot: unknown command. Did you mean report\\? Choose from: run, plan, "):
        choose(words)

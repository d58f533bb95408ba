import pytest

from accelbench.schema.interpreters import OWN, folder_name, names
from fakes import make_cell

NEW, OLD = "/home/me/new/.venv", "/home/me/old/.venv"


def environment(python="3.11.7", **versions):
    return {"machine": {"python": python}, "versions": versions}


@pytest.mark.parametrize(
    ("first", "second", "names_of"),
    [
        ({"torch": "2.9.0", "keras": "3"}, {"torch": "2.10.0"}, ("torch 2.9.0", "torch 2.10.0")),
        ({"torch": "2", "torchvision": "1"}, {"torch": "3", "torchvision": "2"}, ("torch 2", "torch 3")),
        ({"torch": "2", "nvidia-cublas": "1"}, {"torch": "3", "nvidia-cublas": "2"}, ("torch 2", "torch 3")),
        ({"numpy": "1", "flash_attn": "1"}, {"numpy": "2", "python": "3.12.1"}, (OWN, "new")),
        ({"numpy": "1"}, {"numpy": "1", "python": "3.12.1"}, ("Python 3.11.7", "Python 3.12.1")),
        ({"numpy": "1"}, {"numpy": "1"}, (OWN, "new")),
    ],
)
def test_environments_are_called_by_the_package_that_differs_or_by_their_folders(first, second, names_of):
    both = [(None, environment(**first)), (NEW, environment(**second))]
    assert names(both) == [*names_of]
    assert names(both[1:]) == [""]


def test_the_label_and_the_id_of_a_cell_have_its_environment_if_it_is_another_one():
    plain, other = make_cell(), make_cell(python=NEW)
    assert other.label == f"{plain.label}-{folder_name(NEW)}" == f"{plain.label}-new"
    assert "python" not in plain.settings()
    assert len({plain.id, other.id, make_cell(python=OLD).id}) == 3

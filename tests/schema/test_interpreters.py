from accelbench.schema.interpreters import OWN, folder_name, names
from fakes import make_cell

NEW, OLD = "/home/me/new/.venv", "/home/me/old/.venv"


def test_environments_are_called_by_their_folders_if_there_are_several():
    assert names([None, NEW]) == [OWN, "new"]
    assert names([NEW, NEW]) == ["", ""]


def test_the_label_and_the_id_of_a_cell_have_its_environment_if_it_is_another_one():
    plain, other = make_cell(), make_cell(python=NEW)
    assert other.label == f"{plain.label}-{folder_name(NEW)}" == f"{plain.label}-new"
    assert "python" not in plain.settings()
    assert len({plain.id, other.id, make_cell(python=OLD).id}) == 3

import pytest

from accelbench.devices import packages


@pytest.mark.parametrize(
    ("version", "is_safe"),
    [
        *[(word, True) for word in ("2.10.0", "2.10.0+cu126", "2.100.0", "2.11.0a0+git12ab", "2.11.0.dev20260801+cpu")],
        *[(word, False) for word in ("2.9.1", "2.9.0+cu128", "2.10.0rc1", "2.10.0a0+git1f2", "", "unknown")],
    ],
)
def test_torch_reads_files_of_pickles_from_2_10_on(version, is_safe):
    assert packages.is_safe_torch(version) == is_safe

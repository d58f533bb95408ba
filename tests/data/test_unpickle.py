import pickle
from collections import OrderedDict
from pathlib import Path

import pytest

from accelbench.data.unpickle import unpickle
from accelbench.errors import DataError


def test_plain_containers_are_read():
    held = {b"labels": [1, 2], b"pair": (b"a", None, True, 2.5)}
    assert unpickle(pickle.dumps(held)) == held


@pytest.mark.parametrize("value", [Path("x"), OrderedDict(), print, 1j])
def test_anything_else_is_named_and_not_made(value):
    with pytest.raises(DataError, match=r"it names \S+, which is neither an array nor a plain container"):
        unpickle(pickle.dumps([value]))


@pytest.mark.parametrize("content", [b"", b"no pickle", pickle.dumps([1])[:-1], b"cos\n", b"(" * 100, b"R.", b"0."])
def test_a_damaged_pickle_is_refused(content):
    with pytest.raises(DataError):
        unpickle(content)


def array(shape, kind=b"u1", content=b"abcd", is_fortran=b"\x89"):
    """The opcodes of a pickled array."""
    named = b"cnumpy\ndtype\nU\x02" + kind + b"\x85R"
    state = b"(K\x01(" + b"".join(b"K" + bytes([n]) for n in shape) + b"t" + named + is_fortran
    return b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n)R" + state + b"U" + bytes([len(content)]) + content + b"tb."


def test_an_array_is_read():
    assert unpickle(array((2, 2))).array().tolist() == [[97, 98], [99, 100]]


@pytest.mark.parametrize(
    "opcodes",
    [
        array((3, 2)),
        array((2, 2), kind=b"|O"),
        array((2, 2), is_fortran=b"\x88"),
        b"cnumpy.core.multiarray\n_reconstruct\n)R.",
        b"cnumpy.core.multiarray\n_reconstruct\n)RK\x07b.",
    ],
    ids=["too short", "of objects", "in another order", "empty", "without a state"],
)
def test_an_array_of_another_kind_is_refused(opcodes):
    with pytest.raises(DataError, match="an array is"):
        unpickle(opcodes).array()

"""The room that exported networks take."""

import os
from pathlib import Path

from accelbench.isolation.exports import Exports


def test_networks_that_were_not_used_for_the_longest_time_make_room(tmp_path):
    exports = Exports(tmp_path / "exports", max_bytes=250)
    folders = {name: exports.folder(name, Path("data")) for name in "abc"}
    assert len({*folders.values(), exports.folder("a", Path("other data"))}) == 4
    for age, (name, folder) in enumerate(folders.items()):
        (folder / "weights").mkdir(parents=True)
        (folder / "weights" / name).write_bytes(bytes(100))
        os.utime(folder, (age, age))
    exports.make_room()
    assert [name for name, folder in folders.items() if folder.exists()] == ["b", "c"]
    assert exports.folder("b", Path("data")) == folders["b"]  # is used
    exports = Exports(tmp_path / "exports", max_bytes=100)
    exports.make_room()
    assert [name for name, folder in folders.items() if folder.exists()] == ["b"]

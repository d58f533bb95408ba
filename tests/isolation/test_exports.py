"""The room that exported networks take."""

import os
from pathlib import Path
from types import SimpleNamespace

from accelbench.isolation import exports as exports_module
from accelbench.isolation.exports import Exports


def give(exports, sizes):
    """Folders of networks with these sizes, used one after the other."""
    folders = {name: exports.folder(name, Path("data")) for name in sizes}
    for age, (name, folder) in enumerate(folders.items()):
        (folder / "weights").mkdir(parents=True)
        (folder / "weights" / name).write_bytes(bytes(sizes[name]))
        os.utime(folder, (age, age))
    return folders


def test_networks_that_were_not_used_for_the_longest_time_make_room(tmp_path):
    exports = Exports(tmp_path / "exports", max_bytes=250)
    folders = give(exports, {"a": 100, "b": 100, "c": 100})
    assert len({*folders.values(), exports.folder("c", Path("other data"))}) == 4
    exports.make_room()
    assert [name for name, folder in folders.items() if folder.exists()] == ["b", "c"]
    assert exports.folder("b", Path("data")) == folders["b"]  # is used
    Exports(tmp_path / "exports", max_bytes=100).make_room()
    assert [name for name, folder in folders.items() if folder.exists()] == ["b"]


def test_networks_leave_room_on_a_small_disk(tmp_path, monkeypatch):
    exports = Exports(tmp_path)
    folders = give(exports, {"a": 100, "b": 100})
    for free, left in ((200, ["a", "b"]), (199, ["b"])):
        monkeypatch.setattr(exports_module, "disk_usage", lambda path, free=free: SimpleNamespace(free=free))
        exports.make_room()
        assert [name for name, folder in folders.items() if folder.exists()] == left

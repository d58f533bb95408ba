from accelbench.data.source import describe


def test_files_that_appear_or_change_show_and_nothing_else_does(tmp_path):
    empty = describe(tmp_path, "mnist", "auto")
    raw = tmp_path / "data" / "MNIST" / "raw"
    raw.mkdir(parents=True)
    (raw / "images").write_bytes(b"1")
    one = describe(tmp_path, "mnist", "auto")
    assert empty["files"] == {}
    assert one["files"]["images"][0] == 1
    assert describe(tmp_path, "mnist", "auto") == one
    (raw / "images").write_bytes(b"12")
    assert describe(tmp_path, "mnist", "auto") != one


def test_a_folder_is_looked_at_wherever_it_is_and_may_be_missing(tmp_path):
    elsewhere = tmp_path / "elsewhere" / "raw"
    elsewhere.mkdir(parents=True)
    (elsewhere / "a").write_bytes(b"123")
    assert list(describe(tmp_path, "mnist", str(elsewhere.parent))["files"]) == ["raw/a"]
    assert list(describe(tmp_path, "mnist", "elsewhere/raw")["files"]) == ["a"]
    assert describe(tmp_path, "mnist", "nowhere")["files"] == {}

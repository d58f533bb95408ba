from accelbench.data.obtain import source_files


def test_source_files_that_appear_or_change_show_and_nothing_else_does(tmp_path):
    raw = tmp_path / "data" / "MNIST" / "raw"
    lists = [source_files(tmp_path, "mnist", "auto")]
    raw.mkdir(parents=True)
    for content in (b"1", b"12"):
        (raw / "images").write_bytes(content)
        lists.append(source_files(tmp_path, "mnist", "auto"))
    assert [files["num_files"] for files in lists] == [0, 1, 1]
    assert len({files["digest"] for files in lists}) == 3
    assert source_files(tmp_path, "mnist", "data/MNIST/raw")["digest"] == lists[-1]["digest"]
    assert source_files(tmp_path, "mnist", "nowhere")["num_files"] == 0

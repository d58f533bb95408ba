from accelbench.data.obtain import source_files


def test_source_files_that_appear_or_change_show_and_nothing_else_does(tmp_path):
    raw = tmp_path / "data" / "MNIST" / "raw"
    found = [source_files(tmp_path, "mnist", "auto")]
    raw.mkdir(parents=True)
    for content in (b"1", b"12"):
        (raw / "images").write_bytes(content)
        found.append(source_files(tmp_path, "mnist", "auto"))
    assert [each["num_files"] for each in found] == [0, 1, 1]
    assert len({each["digest"] for each in found}) == 3
    assert source_files(tmp_path, "mnist", "data/MNIST/raw")["digest"] == found[-1]["digest"]
    assert source_files(tmp_path, "mnist", "nowhere")["num_files"] == 0

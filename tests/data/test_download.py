import errno
import fcntl
import hashlib
import socket
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from accelbench.data import download as module
from accelbench.data.download import File, download
from accelbench.errors import BusyError, DataError, DownloadError


class Handler(SimpleHTTPRequestHandler):
    """Serves files; `ranges` says whether it can start in the middle, `breaks_at` where a body breaks off."""

    ranges = True
    breaks_at = None
    asked = []

    def log_message(self, *_):
        pass

    def do_GET(self):
        asked = self.headers.get("Range")
        Handler.asked.append(asked)
        content = Path(self.translate_path(self.path))
        if not content.exists():
            self.send_error(404)
            return
        content = content.read_bytes()
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and self.ranges else 0
        if start and start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self.wfile.write(content[start : self.breaks_at])


@pytest.fixture
def mirror(small, monkeypatch):
    """A web server over the small set's files; gives its address."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    for name, value in {"ranges": True, "breaks_at": None, "asked": []}.items():
        monkeypatch.setattr(Handler, name, value)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=small.folder)) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def silent(monkeypatch):
    """The address of a server that takes the connection and never answers."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(module, "STALL_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"


def files(small):
    return [File(name, "md5", md5) for name, md5 in small.md5.items()]


def check(folder, small):
    assert sorted(path.name for path in folder.iterdir()) == sorted(small.md5)
    for name, md5 in small.md5.items():
        assert hashlib.md5((folder / name).read_bytes()).hexdigest() == md5


def test_fetches_only_what_is_missing_or_damaged(small, mirror, tmp_path):
    download(files(small), [mirror], tmp_path / "cache")
    kept, missing, damaged, _ = (tmp_path / "cache" / name for name in small.md5)
    before = kept.stat().st_mtime_ns
    missing.unlink()
    damaged.write_bytes(b"half")
    download(files(small), [mirror], tmp_path / "cache")
    check(tmp_path / "cache", small)
    assert kept.stat().st_mtime_ns == before


def test_needs_no_network_once_it_has_all(small):
    download(files(small), ["http://127.0.0.1:9/"], small.folder)


def test_a_silent_mirror_is_given_up_soon_for_the_next_and_each_is_named(small, mirror, silent, tmp_path):
    download(files(small), [silent, mirror], tmp_path / "cache")
    check(tmp_path / "cache", small)
    with pytest.raises(DataError) as caught:
        download(files(small), [silent + "a/", silent + "b/"], tmp_path / "other")
    assert f"{silent}a/: timed out" in str(caught.value)
    assert f"{silent}b/: timed out" in str(caught.value)


def test_what_comes_altered_is_not_kept(small, mirror, tmp_path):
    small.packed("train-l").write_bytes(b"<html>Please log in</html>")
    with pytest.raises(DataError, match=r"train-l.gz came altered or incomplete \(26 bytes, md5"):
        download(files(small), [mirror], tmp_path / "cache")
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["train-i.gz"]


@pytest.mark.parametrize("ranges", [True, False])
def test_a_download_that_broke_off_goes_on_where_the_mirror_can(small, mirror, tmp_path, monkeypatch, ranges):
    (first, *_) = files(small)
    whole = small.packed("train-i").read_bytes()
    monkeypatch.setattr(Handler, "breaks_at", 40)
    with pytest.raises(DownloadError, match=rf"broke off at 40 of {len(whole)} bytes|IncompleteRead"):
        download([first], [mirror], tmp_path)
    assert not (tmp_path / first.name).exists()
    monkeypatch.setattr(Handler, "breaks_at", None)
    monkeypatch.setattr(Handler, "ranges", ranges)
    download([first], [mirror], tmp_path)
    assert (tmp_path / first.name).read_bytes() == whole
    assert Handler.asked == [None, "bytes=40-"]
    assert [path.name for path in tmp_path.iterdir() if "part" in path.name] == []


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_part_that_is_whole_already_is_taken_and_one_of_something_else_thrown_away(small, mirror, tmp_path, is_whole):
    (first, *_) = files(small)
    whole = small.packed("train-i").read_bytes()
    (tmp_path / f".{first.name}.part").write_bytes(whole if is_whole else b"?" * 10)
    download([first], [mirror], tmp_path)
    assert Handler.asked == ([f"bytes={len(whole)}-"] if is_whole else ["bytes=10-", None])
    assert (tmp_path / first.name).read_bytes() == whole


def test_a_second_download_of_the_same_file_waits_for_nobody_and_says_so(small, mirror, tmp_path):
    (first, *_) = files(small)
    with (tmp_path / f".{first.name}.part").open("ab") as part:
        fcntl.flock(part, fcntl.LOCK_EX)
        with pytest.raises(BusyError, match="another process is downloading it"):
            download([first], [mirror], tmp_path)


def test_a_large_download_is_announced(small, mirror, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(module, "ANNOUNCED_BYTES", 1)
    download(files(small)[:1], [mirror], tmp_path)
    assert "Downloading train-i.gz" in capsys.readouterr().err


def test_a_full_disk_is_no_fault_of_the_mirror(small, mirror, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "_receive", full)
    with pytest.raises(OSError, match="No space left"):
        download(files(small), [mirror], tmp_path)

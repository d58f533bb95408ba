import socket
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from accelbench.data import obtain as module
from accelbench.data.obtain import File, download
from accelbench.errors import DataError, DownloadError
from accelbench.schema.serialize import sha256_of


class Handler(SimpleHTTPRequestHandler):
    """Serves files; `breaks_at` says where a body breaks off."""

    breaks_at = None

    def log_message(self, *_):
        pass

    def copyfile(self, source, outputfile):
        outputfile.write(source.read()[: self.breaks_at])


@pytest.fixture
def mirror(small, monkeypatch):
    """A web server over the small set's files; gives its address."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=small.folder)) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def files(small):
    return [File(name, sha256) for name, sha256 in small.sha256.items()]


def check(folder, small):
    assert {path.name: sha256_of(path) for path in folder.iterdir()} == small.sha256


def test_fetches_only_what_is_missing_or_damaged(small, mirror, tmp_path):
    download(files(small), [mirror], tmp_path / "cache")
    kept, missing, damaged, _ = (tmp_path / "cache" / name for name in small.sha256)
    before = kept.stat().st_mtime_ns
    missing.unlink()
    damaged.write_bytes(b"half")
    download(files(small), [mirror], tmp_path / "cache")
    check(tmp_path / "cache", small)
    assert kept.stat().st_mtime_ns == before


def test_a_silent_mirror_is_given_up_soon_for_the_next_and_each_is_named(small, mirror, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "STALL_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:  # it takes the connection and never answers
        silent = f"http://127.0.0.1:{server.getsockname()[1]}/"
        download(files(small), [silent, mirror], tmp_path / "cache")
        check(tmp_path / "cache", small)
        with pytest.raises(DataError, match=rf"{silent}a/: timed out\n.*{silent}b/: timed out"):
            download(files(small), [silent + "a/", silent + "b/"], tmp_path / "other")


def test_what_comes_altered_or_breaks_off_is_not_kept(small, mirror, tmp_path, monkeypatch):
    first, second = files(small)[:2]
    (small.folder / second.name).write_bytes(b"<html>Please log in</html>")
    with pytest.raises(DownloadError, match=rf"{second.name} arrived altered or incomplete \(26 bytes\)"):
        download(files(small), [mirror], tmp_path / "cache")
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [first.name]
    monkeypatch.setattr(Handler, "breaks_at", 40)
    with pytest.raises(DownloadError, match=r"arrived altered or incomplete \(40 bytes|IncompleteRead"):
        download(files(small)[:1], [mirror], tmp_path / "other")
    assert list((tmp_path / "other").iterdir()) == []

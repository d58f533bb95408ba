import socket
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from accelbench.data import sets as module
from accelbench.data.sets import download
from accelbench.errors import DownloadError
from accelbench.schema.serialize import sha256_of


class Handler(SimpleHTTPRequestHandler):  # serves files; `breaks_at` says where a body breaks off
    breaks_at = None

    def log_message(self, *_):
        pass

    def copyfile(self, source, outputfile):
        outputfile.write(source.read()[: self.breaks_at])


@pytest.fixture
def mirror(small, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=small.folder)) as server:
        threading.Thread(target=server.serve_forever, args=[0.01]).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_fetches_only_what_is_missing_or_damaged(small, mirror, out):
    download(small.sha256, mirror, out)
    kept, missing, damaged, _ = (out / name for name in small.sha256)
    before = kept.stat().st_mtime_ns
    missing.unlink()
    damaged.write_bytes(b"half")
    download(small.sha256, mirror, out)
    assert {path.name: sha256_of(path) for path in out.iterdir()} == small.sha256
    assert kept.stat().st_mtime_ns == before


def test_what_comes_altered_or_breaks_off_is_not_kept(small, mirror, out, monkeypatch):
    first, second, *_ = small.sha256
    (small.folder / second).write_bytes(b"<html>Please log in</html>")
    with pytest.raises(DownloadError, match=rf"{second} arrived altered or incomplete \(26 bytes\)"):
        download(small.sha256, mirror, out)
    assert [path.name for path in out.iterdir()] == [first]
    monkeypatch.setattr(Handler, "breaks_at", 40)
    with pytest.raises(DownloadError, match=r"arrived altered or incomplete \(40 bytes|IncompleteRead"):
        download({first: small.sha256[first]}, mirror, out / "other")
    assert list((out / "other").iterdir()) == []


def test_a_silent_mirror_is_given_up_soon_and_named(small, out, monkeypatch):
    monkeypatch.setattr(module, "STALL_S", 0.2)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as server:  # it takes the connection and never answers
        silent = f"http://127.0.0.1:{server.getsockname()[1]}/"
        with pytest.raises(DownloadError, match=f"the download failed: {silent}: timed out"):
            download(small.sha256, silent, out)

"""Servers in the place of MLflow's that do not answer as one does."""

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# What a server without an end writes: so many bytes at once, and seconds until the next ones.
KINDS = {"endless_body": (1, 0.05), "flood": (65_536, 0.0)}


class _Handler(BaseHTTPRequestHandler):
    kind: str

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            self._answer(*KINDS[self.kind])
        except OSError:  # the client has gone
            return

    do_POST = do_PUT = do_GET

    def log_message(self, *_: object) -> None:
        """Says nothing."""

    def _answer(self, num_bytes: int, pause_s: float) -> None:
        self.send_response(200)
        self.end_headers()
        for _ in itertools.count():
            self.wfile.write(b" " * num_bytes)
            time.sleep(pause_s)


@contextmanager
def server(kind: str) -> Iterator[str]:
    """The address of a server of that kind."""
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"kind": kind})) as made:
        made.daemon_threads = True
        threading.Thread(target=made.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{made.server_port}"
        finally:
            made.shutdown()

"""Servers in the place of MLflow's whose answers have no end."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KINDS = {"endless_body": (1, 0.05), "flood": (65_536, 0.0)}  # bytes at once, and seconds until the next ones


@contextmanager
def server(kind: str) -> Iterator[str]:
    """The address of a server of that kind."""
    num_bytes, pause_s = KINDS[kind]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):  # the client has gone
                while True:
                    self.wfile.write(b" " * num_bytes)
                    time.sleep(pause_s)

        do_POST = do_GET

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        made.daemon_threads = True
        threading.Thread(target=made.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{made.server_port}"
        finally:
            made.shutdown()

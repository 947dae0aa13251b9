"""A small web server with bad habits, for downloads."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server:
    """Serves `files`; `cut` breaks the next answers off after so many bytes, `ranges` says whether
    it can resume.
    """

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files, self.cut, self.ranges, self.status = files, 0, True, 0
        self.asked: list[tuple[str, str | None]] = []  # path and Range of each request
        self.url = ""


@contextmanager
def serving(files: dict[str, bytes]) -> Iterator[Server]:
    server = Server(files)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            server.asked.append((self.path, wanted))
            data = server.files.get(self.path.lstrip("/"))
            if data is None or server.status:
                self.send_error(server.status or 404)
                return
            start = (
                int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and server.ranges else 0
            )
            if start and start >= len(data):
                self.send_error(416)
                return
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
            self.send_header("Content-Length", str(len(data) - start))
            self.end_headers()
            self.wfile.write(data[start : start + server.cut] if server.cut else data[start:])
            if server.cut:
                self.wfile.flush()
                self.connection.close()

        def log_message(self, *args: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
    server.url = f"http://127.0.0.1:{http.server_port}/"
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()

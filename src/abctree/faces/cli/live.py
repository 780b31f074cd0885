"""`Live`: the page of a run while it goes on, on an address of this machine, with a stop button."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path

from abctree.faces.cli.blame import to_stderr

#: What is served and what is written, in the run's folder.
PAGE, _PARTIAL = "report.html", ".report.html"
#: Seconds from one page to the next: at least so many, and so many times what the last one took.
_PAUSE, _SHARE = 4.0, 3.0
#: Seconds between two questions of the page, and how long its last one is waited for.
_ASKS = 2.0
#: The process that writes a page: slow where others need the processor.
_WRITER = (
    "import os, sys; getattr(os, 'nice', int)(10); "
    "from abctree.faces.cli import main; main(sys.argv[1:])"
)
_WAITING = "<!doctype html><html lang=en><title>abctree</title><body><p>The first page comes soon."


class Live:
    """A server of one page on the loopback address, and the thread that keeps the page new.

    Nothing but the page is served, whatever path is asked for.  Ending the run takes a token that
    only the page has, and a request that names this machine as its host: pages of others that are
    open in the same browser can neither read nor end the run.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._token = secrets.token_urlsafe(24)
        self._over = threading.Event()  # the last page is there
        self._ended = threading.Event()  # no more pages are to be written
        self._seen = threading.Event()  # the browser has the last page
        self._asked = 0.0  #: when the page last asked
        live = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                live.get(self)

            def do_POST(self) -> None:
                live.post(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._threads = [
            threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True),
            threading.Thread(target=self._keep_new, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    # Requests -------------------------------------------------------------------------------

    def get(self, request: BaseHTTPRequestHandler) -> None:
        """Answer with the page, or with its version."""
        if not self._is_from_here(request):
            return
        if request.path == "/":
            is_last = self._over.is_set()
            _answer(request, self._page().encode(), "text/html; charset=utf-8")
            if is_last:
                self._seen.set()
        elif request.path == "/state":
            self._asked = time.monotonic()
            state = {"version": self._version(), "over": self._over.is_set()}
            _answer(request, json.dumps(state).encode(), "application/json")
        else:
            request.send_error(HTTPStatus.NOT_FOUND)

    def post(self, request: BaseHTTPRequestHandler) -> None:
        """End the run, if the page asks for it."""
        if not self._is_from_here(request):
            return
        given = request.headers.get("X-Token", "")
        if request.path != "/stop" or not secrets.compare_digest(given, self._token):
            request.send_error(HTTPStatus.FORBIDDEN)
            return
        _answer(request, b"{}", "application/json")
        _interrupt()

    def _is_from_here(self, request: BaseHTTPRequestHandler) -> bool:
        port = self._server.server_address[1]
        is_ours = request.headers.get("Host") in (f"127.0.0.1:{port}", f"localhost:{port}")
        if not is_ours:
            request.send_error(HTTPStatus.FORBIDDEN)
        return is_ours

    def _page(self) -> str:
        version = self._version()
        bar = resources.files("abctree.faces.report").joinpath("live.html").read_text("utf-8")
        known = {"VERSION": version, "TOKEN": self._token, "ASKS": str(int(1000 * _ASKS))}
        for name, value in known.items():
            bar = bar.replace(name, value)
        try:
            page = (self._directory / PAGE).read_text("utf-8")
        except OSError:
            page = _WAITING
        return page.replace("<body>", "<body>" + bar, 1)

    def _version(self) -> str:
        try:
            return str((self._directory / PAGE).stat().st_mtime_ns)
        except OSError:
            return ""

    # The page -------------------------------------------------------------------------------

    def _keep_new(self) -> None:
        """Write the page again and again, in a process of its own: the run does not wait for it."""
        pause = _PAUSE
        while not self._ended.wait(pause):
            began = time.monotonic()
            partial = self._directory / _PARTIAL
            arguments = ["report", str(self._directory), "--to", str(partial)]
            with subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-c", _WRITER, *arguments],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            ) as writer:
                while writer.poll() is None:
                    if self._ended.wait(0.2):
                        writer.kill()
            if writer.returncode == 0 and not self._ended.is_set():
                partial.replace(self._directory / PAGE)
            pause = max(_PAUSE, _SHARE * (time.monotonic() - began))
        (self._directory / _PARTIAL).unlink(missing_ok=True)

    def end_pages(self) -> None:
        """Write no more pages: the last one is about to be."""
        self._ended.set()
        self._threads[1].join()

    def close(self) -> None:
        """Let a browser that looks have the last page, and close the server."""
        self.end_pages()
        self._over.set()
        if time.monotonic() - self._asked < 2.0 * _ASKS:
            self._seen.wait(3.0 * _ASKS)
        self._server.shutdown()
        self._server.server_close()


def _answer(request: BaseHTTPRequestHandler, body: bytes, kind: str) -> None:
    request.send_response(HTTPStatus.OK)
    request.send_header("Content-Type", kind)
    request.send_header("Content-Length", str(len(body)))
    request.send_header("Cache-Control", "no-store")
    request.send_header("X-Frame-Options", "DENY")
    request.end_headers()
    request.wfile.write(body)


def _interrupt() -> None:
    """Do to the main thread what Ctrl-C does."""
    if os.name == "posix":
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        signal.raise_signal(signal.SIGINT)


@contextlib.contextmanager
def live_page(directory: Path) -> Iterator[Live]:
    """Serve the page of the run in a folder, and say where, if what writes pages is installed."""
    from abctree.faces.report import check_installed

    check_installed()
    live = Live(directory)
    to_stderr(f"The run is shown at {live.address}")
    try:
        yield live
    finally:
        live.close()

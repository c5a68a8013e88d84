"""Receivers for the tests: a real SMTP server and a real HTTP one on loopback, that answer as they are told."""

from __future__ import annotations

import email
import email.policy
import http.server
import socketserver
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Any

from tests.waiting import PATIENCE_S, until


class MailServer:
    """Takes mail as a mailbox's server does. `answers` by command ("RCPT", "DATA", "END") replace the good ones.

    "END" is the answer to the text of a message; `None` there cuts the line after the text was taken.
    """

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.answers: dict[str, str | None] = {}
        self.gate: threading.Event | None = None  # where set, the answer to a message waits for it
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                outer._speak(self)

        self._server = _Threaded(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"smtp://127.0.0.1:{self.port}"

    def arrived(self, count: int, seconds: float = PATIENCE_S) -> list[EmailMessage]:
        """Wait for so many mails."""
        until(lambda: len(self.mails) >= count, seconds, f"{count} mails; there are {len(self.mails)}")
        return self.mails

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _speak(self, line: socketserver.StreamRequestHandler) -> None:
        def say(words: str) -> None:
            line.wfile.write(f"{words}\r\n".encode())

        say(self.answers.get("HELLO") or "220 here")
        while heard := line.rfile.readline():
            verb = heard.decode().strip().split(" ")[0].upper()
            if verb == "DATA":
                say(self.answers.get("DATA") or "354 go on")
                if "DATA" not in self.answers and not self._take(line, say):
                    return
            elif verb == "QUIT":
                say("221 bye")
                return
            else:
                say(self.answers.get(verb) or "250 good")

    def _take(self, line: socketserver.StreamRequestHandler, say: Callable[[str], None]) -> bool:
        text = b""
        while (heard := line.rfile.readline()) and heard != b".\r\n":
            text += heard[1:] if heard.startswith(b"..") else heard
        if self.answers.get("END", "250") in {"250", None}:
            self.mails.append(email.message_from_bytes(text, policy=email.policy.default))
        if self.gate is not None:
            self.gate.wait(60)
        answer = self.answers.get("END", "250 taken")
        if answer is None:
            return False
        say(answer)
        return True


@dataclass
class Posted:
    """One request that arrived."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class HookServer:
    """Takes webhooks. `answers` are (status, headers), one for each request and the last one for all that follow."""

    answers: list[tuple[int, dict[str, str]]] = field(default_factory=lambda: [(200, {})])
    posted: list[Posted] = field(default_factory=list)

    def __post_init__(self) -> None:
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                outer.posted.append(Posted(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                status, headers = outer.answers[0] if len(outer.answers) == 1 else outer.answers.pop(0)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, *words: Any) -> None:
                pass

        self._server = _Threaded(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Threaded(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    allow_reuse_address = True

"""Many HTTP clients in one thread that ask for streams of events, as light as Python allows. Standard library only.

    answers = run(port, [[body, body], [body]])   # two clients; the first one asks twice, one request after the other

Each client keeps one connection. While requests are under way nothing is parsed: pieces are kept as they arrive, with the
times of the first event and of the last byte, so that the clients take little of what the server needs.
"""
from __future__ import annotations

import dataclasses
import json
import selectors
import socket
import time
from typing import Any

PATIENCE = 600.0  # seconds without any byte


@dataclasses.dataclass
class Answer:
    sent: float  # seconds of time.perf_counter, as all of them
    first: float = 0.0  # the first event was there; 0 where none came
    last: float = 0.0
    raw: bytes = b""

    @property
    def status(self) -> int:
        return int(self.raw.split(b" ", 2)[1])

    def body(self) -> bytes:
        head, _, rest = self.raw.partition(b"\r\n\r\n")
        if b"transfer-encoding: chunked" not in head.lower():
            return rest
        pieces = []
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            length = int(size, 16)
            pieces.append(rest[:length])
            rest = rest[length + 2:]
        return b"".join(pieces)

    def events(self) -> list[dict[str, Any]]:
        """The JSON of each event; the stream must be whole."""
        lines = [line for line in self.body().split(b"\n") if line.startswith(b"data: ")]
        if self.status != 200 or not lines or lines[-1].strip() != b"data: [DONE]":
            raise ValueError(f"not a whole stream: status {self.status}, {self.body()[-300:]!r}")
        return [json.loads(line[6:]) for line in lines[:-1]]

    def ids(self) -> list[int]:
        """The tokens written, of a request with return_token_ids and one choice."""
        found: list[int] = []
        if self.status == 200 and self.body().startswith(b"{"):  # not a stream
            return list(json.loads(self.body())["choices"][0]["token_ids"])
        for event in self.events():
            if "error" in event:
                raise ValueError(f"an error in a stream: {event}")
            for choice in event["choices"]:
                found += choice["token_ids"] or []
        return found


class Client:
    def __init__(self, port: int, bodies: list[bytes]) -> None:
        self.heads = [b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                      b"Content-Length: %d\r\n\r\n" % len(body) + body for body in bodies]
        self.answers: list[Answer] = []
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pieces: list[bytes] = []
        self.length = -1  # of a whole answer that is not in pieces, once known

    def ask(self) -> None:
        self.pieces, self.length = [], -1
        self.answers.append(Answer(time.perf_counter()))
        self.socket.sendall(self.heads[len(self.answers) - 1])

    def take(self) -> bool:
        """Reads what is there. True: the answer is whole."""
        piece = self.socket.recv(1 << 16)
        now = time.perf_counter()
        answer = self.answers[-1]
        if not piece:
            raise ConnectionError(f"the server closed the connection in an answer: {b''.join(self.pieces)[-300:]!r}")
        self.pieces.append(piece)
        if not answer.first:  # rare and short, so that searching all that came costs nothing
            so_far = b"".join(self.pieces)
            if b"data: " in so_far:
                answer.first = now
            elif self.length < 0 and b"\r\n\r\n" in so_far and b"content-length: " in so_far.lower():
                head, _, rest = so_far.partition(b"\r\n\r\n")
                self.length = len(head) + 4 + int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            if self.length >= 0 and len(so_far) >= self.length:
                answer.last, answer.raw = now, so_far
                return True
        tail = piece if len(piece) >= 5 else b"".join(self.pieces[-5:])
        if not tail.endswith(b"0\r\n\r\n"):
            return False
        answer.last, answer.raw = now, b"".join(self.pieces)
        return answer.raw.endswith(b"\r\n0\r\n\r\n")


def run(port: int, work: list[list[bytes]]) -> list[list[Answer]]:
    clients = [Client(port, bodies) for bodies in work]
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client.socket, selectors.EVENT_READ, client)
        for client in clients:
            client.ask()
        under_way = len(clients)
        while under_way:
            ready = selector.select(PATIENCE)
            if not ready:
                raise TimeoutError(f"no byte within {PATIENCE:.0f} s")
            for key, _ in ready:
                client = key.data
                if not client.take():
                    continue
                if len(client.answers) < len(client.heads):
                    client.ask()
                else:
                    selector.unregister(client.socket)
                    client.socket.close()
                    under_way -= 1
    return [client.answers for client in clients]

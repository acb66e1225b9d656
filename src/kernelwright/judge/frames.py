"""Messages between the judge and a child over a stream socket: four bytes of length, then the body.

To the child go pickles, with open files beside them, and goes: GO, a token and a few bytes more. From the child come
two kinds only: `D` and the token of the last go, and `J` with JSON; the judge never unpickles what a child sends. The
judge's end of this is wire.py.
"""

import array
import socket
import struct

HEADER = struct.Struct("<I")
TOKEN_BYTES = 8
GO = b"G"
"""No pickle begins with it."""
MAX_FRAME = 8 << 20
"""The longest message a child may send: its build requests carry source text."""


def frame(body: bytes) -> bytes:
    """The message as it goes over the wire."""
    return HEADER.pack(len(body)) + body


def parse_go(body: bytes) -> tuple[bytes, bytes]:
    """The token of a go, and what goes with it."""
    if body[:1] != GO:
        raise ValueError("a go was due")
    return body[1 : 1 + TOKEN_BYTES], body[1 + TOKEN_BYTES :]


def send(channel: socket.socket, body: bytes, files: tuple[int, ...] = ()) -> None:
    """Blocks until the message is sent. Copies of the open `files` arrive with it."""
    data = frame(body)
    if files:
        sent = socket.send_fds(channel, [data[: HEADER.size]], list(files))
        data = data[sent:]
    channel.sendall(data)


def receive(channel: socket.socket) -> tuple[bytes, list[int]]:
    """Blocks until a message has come; its body and the files with it. Raises EOFError when the other end is closed."""
    head, files = _receive_some(channel, HEADER.size)
    while len(head) < HEADER.size:
        more, further = _receive_some(channel, HEADER.size - len(head))
        head, files = head + more, files + further
    (left,) = HEADER.unpack(head)
    body = bytearray()
    while left:
        part = channel.recv(min(left, 1 << 20))
        if not part:
            raise EOFError
        body += part
        left -= len(part)
    return bytes(body), files


def _receive_some(channel: socket.socket, size: int) -> tuple[bytes, list[int]]:
    files = array.array("i")
    data, ancillary, _, _ = channel.recvmsg(size, socket.CMSG_SPACE(4 * files.itemsize))
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            files.frombytes(content[: len(content) - len(content) % files.itemsize])
    if not data:
        raise EOFError
    return data, list(files)

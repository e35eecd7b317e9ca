"""A client at the socket: a request whose connection the test holds, reads slowly, or resets."""
import json
import socket
import struct

from installation import PATIENCE_SECONDS


RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # for SO_LINGER


def request_bytes(server, key, body, path="/v1/completions"):
    """A whole request, (head, payload)."""
    payload = json.dumps(body).encode()
    head = (f"POST {path} HTTP/1.1\r\nHost: {server.host}:{server.port}\r\n"
            f"Authorization: Bearer {key}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(payload)}\r\n\r\n").encode()
    return head, payload


class OpenStream:
    """One request on its own connection; nothing is read until a method reads."""

    def __init__(self, server, key, body, path="/v1/completions", receive_buffer_bytes=None,
                 body_bytes_sent=None):
        self.socket = socket.socket()
        self.socket.settimeout(PATIENCE_SECONDS)
        if receive_buffer_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.connect((server.host, server.port))
        head, payload = request_bytes(server, key, body, path)
        self.socket.sendall(head + payload[:body_bytes_sent])
        self.received = b""

    def read_until(self, mark):
        while mark not in self.received:
            piece = self.socket.recv(65536)
            if not piece:
                raise AssertionError(f"closed before {mark!r}: {self.received[-500:]!r}")
            self.received += piece

    def read_to_end(self):
        """For answers that the server ends by closing."""
        while piece := self.socket.recv(65536):
            self.received += piece
        return self.received

    def reset(self):
        """Leaves with RST, as a crashed client does."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        self.socket.close()

    def finish_sending(self):
        """Leaves with FIN, as a client that has had enough does."""
        self.socket.shutdown(socket.SHUT_WR)

    def close(self):
        self.socket.close()

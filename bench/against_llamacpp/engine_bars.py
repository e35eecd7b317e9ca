#!/usr/bin/env python3
"""The engine against llama.cpp, format by format: products alone, then under load over HTTP.

    engine_bars.py --peer .cache/peer/openmp/bin --peer .cache/peer/own-pool/bin \\
                   --file Q4_1=default.gguf --file Q8_0=default-Q8_0.gguf ...

  prefill, decode, depth   model_bench against llama-bench (pp512, tg128, tg at depth 0 and 2,048),
                           each build for itself: the better median counts, for the better run of
                           a round would be the luckier one; prefill and decode against
                           ik_llama.cpp too, where --second-peer names its folder, with its weights
                           as they are and rearranged at load
  streams                  8 and 32 streams, against the better of both builds with split KV
  gap                      worst gap of 4 streams while a 1,900-token prompt is read, against
                           llama-server at its defaults and with -b 256
  shared                   8 simultaneous requests that share 1,024 tokens: time and tokens computed
  busy                     8 streams beside one busy process, as a share of the idle figure
  load                     start to ready

Sides alternate, medians are compared, every run is kept in OUT/DATE-CPU/engine_bars.json,
engine_bars_PART.json where parts are named.
Exit codes: 0 done, 3 something is missing.
"""
import contextlib
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import process_figures  # noqa: E402
from options import Options  # noqa: E402
from servers import SLOTS, Peer, Turnstile  # noqa: E402

PARTS = ("model", "streams", "gap", "shared", "busy", "load")
FORMATS_UNDER_LOAD = ("Q8_0", "Q4_1", "Q4_0")


class PeerAtDefaults(Peer):
    """llama-server with `batch` tokens a step, or its own choice."""

    def __init__(self, binary, model, threads, slots, context, batch=None):
        super().__init__(binary, model, threads, False, context)
        self.slots, self.context, self.batch = slots, context * slots, batch
        self.name = f"llama-server{f' -b {batch}' if batch else ''}"

    def command(self, folder):
        batch = ["-b", str(self.batch), "-ub", str(self.batch)] if self.batch else []
        return [str(self.binary), "-m", str(self.model), "-t", str(self.threads), "-tb",
                str(self.threads), "-np", str(self.slots), "-c", str(self.context), *batch,
                "--no-kv-unified", "--host", "127.0.0.1", "--port", str(self.port)]


def model_bench(arguments, file, filters):
    """-> {benchmark: milliseconds an iteration}"""
    done = subprocess.run([arguments.model_bench, f"--benchmark_filter={filters}",
                           "--benchmark_format=json", "--benchmark_min_time=1.5"],
                          env={**os.environ, "TURNSTILE_TEST_MODEL": str(file),
                               "TURNSTILE_BENCH_THREADS": str(arguments.threads)},
                          capture_output=True, text=True, check=True)
    return {re.sub("/real_time$", "", run["name"]): run["real_time"]
            for run in json.loads(done.stdout)["benchmarks"]}


def llama_bench(arguments, binary, file, *flags):
    done = subprocess.run([binary / "llama-bench", "-m", file, "-t", str(arguments.threads),
                           "-r", "2", "-o", "json", *flags],
                          capture_output=True, text=True, check=True)
    return [run["avg_ts"] for run in json.loads(done.stdout)]


OUR_BENCHMARKS = {"prefill": "prefill/512", "decode": "decode/1/", "depth_ms": "depth/(0|2048)/"}
PEER_FLAGS = {"prefill": ("-p", "512", "-n", "0"), "decode": ("-p", "0", "-n", "128"),
              "depth_ms": ("-p", "0", "-n", "32", "-d", "0,2048", "-fa", "on")}


def our_figure(arguments, file, key):
    times = model_bench(arguments, file, OUR_BENCHMARKS[key])
    return {"prefill": lambda: 512e3 / times["prefill/512"],
            "decode": lambda: 1e3 / times["decode/1"],
            "depth_ms": lambda: times["depth/2048"] - times["depth/0"]}[key]()


def peer_figure(arguments, binary, file, key, *flags):
    rates = llama_bench(arguments, binary, file, *PEER_FLAGS[key], *flags)
    return 1e3 / rates[1] - 1e3 / rates[0] if key == "depth_ms" else rates[0]


def model_round(arguments, name, file, turn):
    """One round: a figure of each side and setting at a time; the larger the better, but for
    `depth_ms`. Sides take turns measure by measure, since the machine's speed changes in minutes."""
    runs = []
    for key in OUR_BENCHMARKS:
        sides = [("turnstile", "", lambda: our_figure(arguments, file, key))]
        sides += [("llama.cpp", binary.parent.name,
                   lambda binary=binary: peer_figure(arguments, binary, file, key))
                  for binary in arguments.peer]
        if arguments.second_peer and key != "depth_ms":
            sides += [("ik_llama.cpp", f"-rtr {repack}",
                       lambda repack=repack: peer_figure(arguments, arguments.second_peer, file, key,
                                                         "-rtr", repack))
                      for repack in ("0", "1")]
        runs += [{"part": "model", "file": name, "side": side, "setting": setting, "round": turn,
                  key: measure()}
                 for side, setting, measure in (sides if turn % 2 == 0 else sides[::-1])]
    return runs


def drive(arguments, server, *flags):
    """turnstile-load against a server -> its report."""
    report = pathlib.Path(server.scratch.name) / "report.json"
    command = [arguments.load, "--url", server.url, "--api", server.api, *server.load_flags,
               "--ignore-eos", "--report", report, *map(str, flags)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"engine_bars.py: {done.stderr}")
    return json.loads(report.read_text())


def stream_rate(arguments, server, streams, requests, seed):
    flags = ("--streams", streams, "--prompt-tokens", 64, "--max-tokens", 96, "--seed", seed)
    drive(arguments, server, *flags, "--requests", min(streams, 8))
    before = process_figures.voluntary_switches(server.pid)
    report = drive(arguments, server, *flags, "--requests", requests)
    switches = process_figures.voluntary_switches(server.pid) - before
    return {"tokens_per_s": report["throughput"]["out_tok_per_s"],
            "switches_per_token": switches / report["throughput"]["completion_tokens"]}


def ours_or_theirs(arguments, file, context=1024):
    """Pairs (side, maker of a server)."""
    return [("turnstile", lambda: Turnstile(arguments.turnstile, file, arguments.threads)),
            *((f"llama-server, {binary.parent.name}",
               lambda binary=binary: Peer(binary / "llama-server", file, arguments.threads, False,
                                          context)) for binary in arguments.peer)]


def streams_round(arguments, name, file, turn):
    sides = ours_or_theirs(arguments, file)
    runs = []
    for streams, requests in ((8, 16), (32, 64)):
        for side, make in sides if turn % 2 == 0 else sides[::-1]:
            with make() as server:
                runs.append({"part": "streams", "file": name, "side": side, "round": turn,
                             "streams": streams,
                             **stream_rate(arguments, server, streams, requests, 50 + turn)})
    return runs


def gap_round(arguments, name, file, turn):
    """Four streams decode; a long prompt arrives in their middle."""
    binary = arguments.peer[0] / "llama-server"
    sides = [("turnstile", lambda: Turnstile(arguments.turnstile, file, arguments.threads)),
             ("llama-server", lambda: PeerAtDefaults(binary, file, arguments.threads, 5, 2048)),
             ("llama-server -b 256",
              lambda: PeerAtDefaults(binary, file, arguments.threads, 5, 2048, 256))]
    runs = []
    for side, make in sides if turn % 2 == 0 else sides[::-1]:
        with make() as server:
            report = pathlib.Path(server.scratch.name) / "streams.json"
            streams = subprocess.Popen(
                [arguments.load, "--url", server.url, "--api", server.api, *server.load_flags,
                 "--ignore-eos", "--streams", "4", "--requests", "4", "--prompt-tokens", "64",
                 "--max-tokens", "400", "--seed", str(turn), "--report", str(report)],
                stdout=subprocess.DEVNULL)
            time.sleep(1)  # by then all four decode, and none has ended
            prompt = drive(arguments, server, "--requests", 1, "--prompt-tokens", 1900,
                           "--max-tokens", 1, "--seed", 900 + turn)
            streams.wait()
            gaps = json.loads(report.read_text())["latency"].get("event_gap_ms")
            if gaps is None:
                raise SystemExit(f"engine_bars.py: no stream of {side} ended in time; is the "
                                 "machine busy?")
            runs.append({"part": "gap", "file": name, "side": side, "round": turn,
                         "worst_gap_ms": gaps["max"], "median_gap_ms": gaps["p50"],
                         "prompt_ms": prompt["latency"]["ttft_sent_ms"]["max"]})
    return runs


def shared_round(arguments, name, file, turn):
    sides = ours_or_theirs(arguments, file, 1100)[:2]
    runs = []
    for side, make in sides if turn % 2 == 0 else sides[::-1]:
        with make() as server:
            drive(arguments, server, "--requests", 1, "--prompt-tokens", 32, "--max-tokens", 4)
            report = drive(arguments, server, "--streams", 8, "--requests", 8, "--prompt-tokens",
                           1040, "--shared-prompt-tokens", 1024, "--max-tokens", 8, "--seed", turn)
            prompts = report["throughput"]
            runs.append({"part": "shared", "file": name, "side": side, "round": turn,
                         "seconds": prompts["wall_s"],
                         "computed": 8 * 1040 - prompts["cached_tokens"]})
    return runs


@contextlib.contextmanager
def busy_process():
    hog = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        hog.kill()
        hog.wait()


def busy_round(arguments, name, file, turn):
    sides = ours_or_theirs(arguments, file)
    runs = []
    for side, make in sides if turn % 2 == 0 else sides[::-1]:
        with make() as server:
            idle = stream_rate(arguments, server, 8, 16, 70 + turn)["tokens_per_s"]
            with busy_process():
                busy = stream_rate(arguments, server, 8, 16, 80 + turn)["tokens_per_s"]
        runs.append({"part": "busy", "file": name, "side": side, "round": turn,
                     "kept": busy / idle})
    return runs


def load_round(arguments, name, file, turn):
    sides = ours_or_theirs(arguments, file)[:2]
    runs = []
    # A hypervisor takes back memory that nobody used for seconds, and whoever touches it first pays
    # for its return: here 2 s for 600 MiB.
    for _, make in sides:
        with make():
            pass
    for side, make in sides if turn % 2 == 0 else sides[::-1]:
        server = make()
        began = time.monotonic()
        with server:
            runs.append({"part": "load", "file": name, "side": side, "round": turn,
                         "seconds": time.monotonic() - began})
    return runs


def median(runs, key, **wanted):
    found = [run[key] for run in runs if all(run.get(name) == value
                                             for name, value in wanted.items())]
    return statistics.median(found) if found else None


def best_setting(runs, key, side):
    """The better median of the settings of `side`; None: it was not measured."""
    medians = [median(runs, key, side=side, setting=setting)
               for setting in {run["setting"] for run in runs if run["side"] == side}]
    return (min if key == "depth_ms" else max)(medians, default=None)


def table(runs):
    lines = ["| measure | file | Turnstile | peer | ratio |", "|---|---|---|---|---|"]
    files = list(dict.fromkeys(run["file"] for run in runs))

    def row(title, file, ours, theirs, form="{:.0f}"):
        if ours is not None and theirs:
            lines.append(f"| {title} | {file} | {form.format(ours)} | {form.format(theirs)} | "
                         f"{ours / theirs:.3g} |")

    for file in files:
        for key, title, form in (("prefill", "prefill 512, tok/s", "{:.0f}"),
                                 ("decode", "decode, 1 stream, tok/s", "{:.0f}"),
                                 ("depth_ms", "added ms a token to depth 2,048", "{:.2f}")):
            here = [run for run in runs if key in run and run["part"] == "model"
                    and run["file"] == file]
            for side, added in (("llama.cpp", ""), ("ik_llama.cpp", " (ik_llama.cpp)")):
                row(title + added, file, median(here, key, side="turnstile"),
                    best_setting(here, key, side), form)
        for key, part, title, form in (
                ("tokens_per_s", "streams", "streams, tok/s", "{:.0f}"),
                ("switches_per_token", "streams", "streams, switches a token", "{:.2f}"),
                ("kept", "busy", "throughput kept beside one busy process", "{:.2f}"),
                ("seconds", "load", "start to ready, s", "{:.2f}"),
                ("seconds", "shared", "8 requests sharing 1,024 tokens, s", "{:.2f}"),
                ("computed", "shared", "the same, tokens computed", "{:.0f}"),
                ("worst_gap_ms", "gap", "worst gap while 1,900 tokens are read, ms", "{:.0f}")):
            here = [run for run in runs if run["part"] == part and run["file"] == file]
            for streams in sorted({run.get("streams", 0) for run in here}):
                same = [run for run in here if run.get("streams", 0) == streams]
                ours = median(same, key, side="turnstile")
                for side in dict.fromkeys(run["side"] for run in same):
                    if side != "turnstile":
                        row(f"{streams or ''} {title} ({side})".strip(), file, ours,
                            median(same, key, side=side), form)
    return "\n".join(lines) + "\n"


def main():
    options = Options(__doc__, "turnstile", "load", "model-bench", rounds=5)
    options.add_peers("folder of llama-server and llama-bench", required=True)
    options.add_argument("--second-peer", type=pathlib.Path,
                         help="folder of ik_llama.cpp's llama-bench")
    options.add_argument("--file", action="append", required=True, metavar="FORMAT=PATH")
    options.add_argument("--part", action="append", choices=PARTS, help="all when none is named")
    options.add_threads()
    options.add_results()
    arguments = options.parse_args()
    files = {name: pathlib.Path(path) for name, _, path in
             (text.partition("=") for text in arguments.file)}
    options.need((arguments.turnstile, arguments.load, arguments.model_bench, *files.values(),
                  *(binary / "llama-server" for binary in arguments.peer),
                  *([arguments.second_peer / "llama-bench"] if arguments.second_peer else [])),
                 "build with 'ninja -C build' and build_peer.sh first.")
    arguments.peer = [path.resolve() for path in arguments.peer]
    if arguments.second_peer:
        arguments.second_peer = arguments.second_peer.resolve()

    machine = process_figures.machine()
    process_figures.warn_when_busy(machine)
    folder = process_figures.results_folder(arguments.out, machine)
    # Runs of other parts on the same day stay.
    stem = "_".join(["engine_bars", *(arguments.part or [])])
    default = next(iter(files))  # the parts that are not about formats run on the first file
    parts = {"model": (model_round, files), "streams": (streams_round, FORMATS_UNDER_LOAD),
             "gap": (gap_round, [default]), "shared": (shared_round, [default]),
             "busy": (busy_round, [default]), "load": (load_round, [default])}
    runs = []
    for turn in range(arguments.rounds):
        for part in arguments.part or PARTS:
            measure, names = parts[part]
            for name in names:
                if name in files:
                    runs += measure(arguments, name, files[name], turn)
                    print(f"round {turn + 1}, {part}, {name}", flush=True)
            (folder / f"{stem}.json").write_text(
                json.dumps({"machine": machine, "slots": SLOTS, "runs": runs}, indent=1) + "\n")
    text = f"{machine['cpu']} ({', '.join(machine['instructions'])}), {arguments.threads} " \
           f"threads; {arguments.rounds} rounds, medians.\n\n" + table(runs)
    (folder / f"{stem}.md").write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

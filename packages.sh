# shellcheck shell=bash disable=SC2034
# packages.sh: what run.sh and test.sh share: the Debian packages, the build, the model.
# Sourced, not run. Every step that cannot go on ends in one sentence with the remedy.

build_packages=(
  g++ meson ninja-build pkg-config git ca-certificates curl python3 python3-pip
  libboost1.81-dev libboost-json1.81-dev libsimdjson-dev libtomlplusplus-dev libcli11-dev
  libexpected-dev libconcurrentqueue-dev prometheus-cpp-dev libssl-dev
  libgtest-dev libgmock-dev libbenchmark-dev
)
test_packages=(clang-14 libsimde-dev python3-venv python3-jinja2)

# Sources are compiled ten at a time: most of a small source's time is the same headers again.
together=(-Dunity=on -Dunity_size=10)
# The build that serves, the same folder for run.sh and test.sh.
release_build=(build --buildtype release "${together[@]}")

# fail SENTENCE: exit 3, the environment lacks something.
fail() {
  printf '%s: %s\n' "${0##*/}" "$1" >&2
  exit 3
}

is_installed() {
  [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# install_packages NAME...: installs those that are missing; silent and offline when none is.
install_packages() {
  local missing=() package as_root=()
  command -v apt-get >/dev/null || fail "this script installs Debian 12 packages and finds no \
apt-get; install the equivalents of these and build with Meson: $*."
  for package in "$@"; do
    is_installed "$package" || missing+=("$package")
  done
  [[ ${#missing[@]} -gt 0 ]] || return 0

  # Debian's two Boost development packages exclude each other. Installing ours would remove the
  # other one, which is the user's decision.
  if ! is_installed libboost1.81-dev; then
    for package in libboost1.74-dev libboost-dev; do
      ! is_installed "$package" || fail "libboost1.81-dev cannot be installed beside $package; if \
you can do without that one, run 'apt-get remove libboost1.74-dev' and start again, otherwise \
build in a container."
    done
  fi
  if [[ $EUID -ne 0 ]]; then
    command -v sudo >/dev/null || fail "packages are missing and sudo is not there; run this as \
root and start again: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  echo "Installing ${missing[*]} ..." >&2
  "${as_root[@]}" apt-get update -qq >&2 || fail "apt-get update failed (its message is above); \
check the network and /etc/apt/sources.list and start again."
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y \
    --no-install-recommends "${missing[@]}" >&2 || fail "apt-get could not install ${missing[*]} (its message is above); \
Turnstile is built on Debian 12 (bookworm); start again once they can be installed."
}

# configure FOLDER MESON_OPTION...: once; later calls leave the folder as it is.
configure() {
  local folder=$1
  shift
  [[ -f $folder/build.ninja ]] || meson setup "$folder" "$@" >&2 || fail "Meson could not set up \
$folder (its message is above); remove that folder and start again."
}

# build FOLDER TARGET...: compiles; without a target everything.
build() {
  local folder=$1
  shift
  ninja -C "$folder" "$@" >&2 || fail "the build in $folder failed (the compiler's message is \
above); if sources were moved, remove $folder and start again."
}

# default_model: prints the path of the default model, fetched once.
default_model() {
  python3 subprojects/default-model/fetch.py
}

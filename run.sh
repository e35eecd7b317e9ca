#!/usr/bin/env bash
# run.sh: from a fresh Debian 12 to a served model; again, it starts in seconds.
#   ./run.sh            installs, builds, fetches the model, makes ./.turnstile once, serves
#   ./run.sh --build    installs and builds, then stops
#   ./run.sh ARGUMENT…  as the first, the arguments go to 'turnstile serve'
set -euo pipefail
cd "$(dirname "$0")"
# shellcheck source=packages.sh
source packages.sh

turnstile=build/gateway/turnstile

install_packages "${build_packages[@]}"
configure "${release_build[@]}"
build build gateway/turnstile
[[ ${1-} != --build ]] || exit 0

if [[ ! -f .turnstile/turnstile.toml ]]; then
  model=$(default_model) || exit
  secret=$("$turnstile" init .turnstile --model "$model") || exit
  (umask 077 && printf '%s\n' "$secret" >.turnstile/key)
fi

# Also when this start does not make the key: whoever starts the server wants to talk to it.
cat <<'EOF'
When it says 'ready', this streams an answer (from this folder, in a second terminal):

  curl -N http://127.0.0.1:8000/v1/chat/completions \
    -H "Authorization: Bearer $(cat .turnstile/key)" -H 'Content-Type: application/json' \
    -d '{"stream": true, "messages": [{"role": "user", "content": "Why is the sky blue?"}]}'

EOF
exec "$turnstile" serve --config .turnstile/turnstile.toml "$@"

// serve.h: `turnstile serve`: builds everything from a Config, runs it, and takes it down again.
//
//   policy, keys, TLS, sockets (cheap, fail first) -> model -> records -> engine thread -> I/O loop
//
// Prints `admin http://HOST:PORT` and then `ready http://HOST:PORT` on standard output when it
// serves. Problems are sentences on standard error.
//
// Exit codes: 0 after a drain; 1 the policy or the keys have errors; 3 a file, a port or the model
// cannot be used, or the disk did not take the last records; 4 the engine failed while serving.
//
// Thread: the calling thread becomes the I/O thread.
// Tests:  tests/e2e.
#pragma once

#include <functional>

#include "gateway/config/config.h"
#include "gateway/exit_code.h"
#include "gateway/served_model.h"
#include "gateway/surroundings.h"

namespace turnstile::gateway {

// `load` is load_served_model() but for bench/gateway/instant_server.cpp, which measures the
// gateway over a model that costs nothing.
using ModelLoader = std::function<tl::expected<ServedModel, std::string>(
    const ModelConfig& config, std::ostream& err)>;
ExitCode serve(const Config& config, Surroundings around,
               const ModelLoader& load = load_served_model);

// `serve --check`: reads, loads and checks what serve() would; opens no socket and no record.
ExitCode check_serve(const Config& config, Surroundings around,
                     const ModelLoader& load = load_served_model);

}  // namespace turnstile::gateway

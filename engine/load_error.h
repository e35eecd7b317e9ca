// load_error.h: why a model file cannot be used.
//
// A corrupt, truncated or foreign file is expected input: loaders return this value, and
// `turnstile` prints "PATH: where: what" and exits with 3.
#pragma once

#include <string>

namespace turnstile::engine {

struct LoadError {
  std::string where;  // the key, tensor or byte offset at fault, e.g. "tensor blk.3.attn_q.weight"
  std::string what;   // a sentence that names the limit or the expected value
};

}  // namespace turnstile::engine

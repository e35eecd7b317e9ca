// gguf_split.h: a model in several files, NAME-00001-of-0000N.gguf and so on, read as one.
//
//   part 1   all keys, its tensors       split.no 0      every part: split.count N, and
//   part 2   its tensors                 split.no 1      split.tensors.count, the sum over all
//   ...
//
// The first part is opened by its name, the others are found beside it. A part that is missing,
// cannot be read, says that it is another one, or repeats a tensor is one sentence that names it;
// nothing of the model is loaded then.
//
// Private to the loader: GgufFile::open() comes here.
// Errors: LoadError with `where` = "part 2 of 3 (NAME)", or "file" for the first part's own name.
// Tests:  tests/engine/gguf_split_test.cpp.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "engine/load_error.h"
#include "engine/loader/gguf.h"

namespace turnstile::engine {

class GgufSplit {
 public:
  static constexpr std::uint64_t kMaxParts = 1'000;

  using OpenPart = std::function<tl::expected<GgufFile, LoadError>(const std::string& path)>;

  // `first` was read from `path`. A file that is not split is returned as it is.
  static tl::expected<GgufFile, LoadError> complete(GgufFile first, const std::string& path,
                                                    const OpenPart& open);

  // Parts in order, each read on its own; parts[0] has the keys. REQUIRES: at least one.
  static tl::expected<GgufFile, LoadError> join(std::vector<GgufFile> parts);
};

}  // namespace turnstile::engine

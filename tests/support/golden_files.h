// golden_files.h: where tests find reference data and the real model.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace turnstile::tests {

// TURNSTILE_GOLDEN_DIR is defined by the test's meson.build.
inline std::string golden_path(const std::string& name) {
  return std::string(TURNSTILE_GOLDEN_DIR) + "/" + name;
}

inline constexpr const char* kNoTestModel =
    "TURNSTILE_TEST_MODEL is not set to the path of SmolLM2-135M-Instruct.Q4_1.gguf";

// The file of the default model; tests that need it skip with kNoTestModel when it is absent.
inline std::optional<std::string> test_model_path() {
  const char* path = std::getenv("TURNSTILE_TEST_MODEL");
  if (path == nullptr || *path == '\0') return std::nullopt;
  return std::string(path);
}

}  // namespace turnstile::tests

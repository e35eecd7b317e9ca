// libFuzzer target: any bytes as a GGUF file, and as a tokenizer if they are one.
//
// Run: gguf_fuzz CORPUS_FOLDER, with a small valid file in the folder to start from.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/loader/gguf.h"
#include "engine/tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace engine = turnstile::engine;
  const auto file = engine::GgufFile::parse({reinterpret_cast<const std::byte*>(data), size});
  if (!file) return 0;
  for (const auto& [key, text] : file->printable_keys()) {
    file->get_strings(key);
    file->get_ints(key);
    file->get_uint(key);
    file->get_float(key);
  }
  unsigned sum = 0;
  for (const engine::GgufTensor& tensor : file->tensors()) {
    sum += std::to_integer<unsigned>(tensor.data.front());
    sum += std::to_integer<unsigned>(tensor.data.back());
  }
  if (const auto tokenizer = engine::Tokenizer::from_gguf(*file)) {
    std::vector<engine::TokenId> ids;
    tokenizer->encode("a bc 12 <|x|> \xC3\xA9", engine::ParseSpecial::Yes, ids);
  }
  return static_cast<int>(sum & 0);
}

// libFuzzer target: any bytes as a GGUF file, as a tokenizer and a model if they are one, and as
// the two parts of a split model.
//
// Run: gguf_fuzz CORPUS_FOLDER, with small valid files in the folder to start from
// (tests/fuzz/corpus/gguf has some, and inputs that once failed).
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engine/loader/gguf.h"
#include "engine/loader/gguf_split.h"
#include "engine/model/llama.h"
#include "engine/tokenizer/tokenizer.h"

namespace {

namespace engine = turnstile::engine;

unsigned touch(const engine::GgufFile& file) {
  for (const auto& [key, text] : file.printable_keys()) {
    file.get_strings(key);
    file.get_ints(key);
    file.get_uint(key);
    file.get_float(key);
  }
  unsigned sum = 0;
  for (const engine::GgufTensor& tensor : file.tensors()) {
    sum += std::to_integer<unsigned>(tensor.data.front());
    sum += std::to_integer<unsigned>(tensor.data.back());
    if (file.find_tensor(tensor.name) == nullptr) __builtin_trap();
  }
  return sum;
}

void load(const engine::GgufFile& file) {
  if (const auto tokenizer = engine::Tokenizer::from_gguf(file)) {
    std::vector<engine::TokenId> ids;
    tokenizer->encode("a bc 12 <|x|> \xC3\xA9", engine::ParseSpecial::Yes, ids);
  }
  if (const auto model = engine::LlamaModel::load(file, {})) {
    if ((*model)->weight_bytes() > 16 * file.file_bytes() + (1 << 20)) __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes{reinterpret_cast<const std::byte*>(data), size};
  unsigned sum = 0;
  if (const auto file = engine::GgufFile::parse(bytes)) {
    sum += touch(*file);
    load(*file);
  }
  const std::size_t cut = size / 64 * 32;  // tensor data keeps its alignment
  auto first = engine::GgufFile::parse(bytes.first(cut));
  auto second = engine::GgufFile::parse(bytes.subspan(cut));
  if (first && second) {
    std::vector<engine::GgufFile> parts;
    parts.push_back(std::move(*first));
    parts.push_back(std::move(*second));
    if (const auto whole = engine::GgufSplit::join(std::move(parts))) sum += touch(*whole);
  }
  return static_cast<int>(sum & 0);
}

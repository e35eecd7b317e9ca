// A model in several files: read as one, and every way in which parts can be wrong is a sentence.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "engine/loader/gguf.h"
#include "engine/loader/gguf_split.h"
#include "engine/model/llama.h"
#include "tests/support/random_llama.h"
#include "tests/support/temp_folder.h"
#include "tests/support/teacher_forcing.h"

namespace turnstile {
namespace {

using engine::GgufFile;
using engine::LlamaModel;
using tests::GgufImage;

// The tensors of `whole` dealt out to `count` parts, the keys in the first.
std::vector<GgufImage> split(const GgufImage& whole, std::size_t count) {
  std::vector<GgufImage> parts(count);
  parts[0].keys = whole.keys;
  for (std::size_t i = 0; i < whole.tensors.size(); ++i) {
    parts[i * count / whole.tensors.size()].tensors.push_back(whole.tensors[i]);
  }
  for (std::size_t i = 0; i < count; ++i) {
    parts[i].set("split.no", static_cast<std::uint32_t>(i));
    parts[i].set("split.count", static_cast<std::uint32_t>(count));
    parts[i].set("split.tensors.count", static_cast<std::uint32_t>(whole.tensors.size()));
  }
  return parts;
}

void write(const gateway::TempFolder& folder, const std::string& name, const GgufImage& image) {
  const std::vector<std::byte> bytes = image.serialize();
  folder.write(name, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::string part_name(std::size_t part) { return "m-0000" + std::to_string(part) + "-of-00003.gguf"; }

std::vector<float> logits_of(const GgufFile& file) {
  auto model = LlamaModel::load(file, {.level = kernels::best_level()});
  EXPECT_TRUE(model) << model.error().where << ": " << model.error().what;
  EXPECT_TRUE((*model)->reserve(4, 32, 1));
  const std::vector<engine::TokenId> ids = {1, 5, 3, 80, 2};
  return tests::last_logits(**model, ids);
}

TEST(GgufSplit, ThreePartsGiveTheLogitsOfTheWholeFile) {
  const GgufImage whole = tests::random_llama({}, 7);
  const std::vector<std::byte> bytes = whole.serialize();
  const auto expected = GgufFile::parse(bytes);
  ASSERT_TRUE(expected);
  const gateway::TempFolder folder;
  const std::vector<GgufImage> parts = split(whole, 3);
  for (std::size_t i = 0; i < 3; ++i) write(folder, part_name(i + 1), parts[i]);
  auto opened = GgufFile::open((folder / part_name(1)).string());
  ASSERT_TRUE(opened) << opened.error().where << ": " << opened.error().what;
  const GgufFile file = std::move(*opened);  // views survive a move
  EXPECT_EQ(file.tensors().size(), whole.tensors.size());
  for (const tests::GgufImageTensor& tensor : whole.tensors) {
    ASSERT_NE(file.find_tensor(tensor.name), nullptr) << tensor.name;
    EXPECT_EQ(file.find_tensor(tensor.name)->name, tensor.name);
  }
  std::uint64_t sum = 0;
  for (std::size_t i = 1; i <= 3; ++i) sum += std::filesystem::file_size(folder / part_name(i));
  EXPECT_EQ(file.file_bytes(), sum);
  EXPECT_EQ(logits_of(file), logits_of(*expected));
}

struct WrongParts {
  const char* name;
  std::size_t open_part;  // from 1
  std::function<void(std::vector<GgufImage>&)> change;
  std::size_t missing;  // a part that is not written; 0: all are
  const char* where;
  const char* what;
};

TEST(GgufSplit, WrongPartsAreNamed) {
  const auto nothing = [](std::vector<GgufImage>&) {};
  const WrongParts cases[] = {
      {"a missing part", 1, nothing, 3, "part 3 of 3 (m-00003-of-00003.gguf)", "cannot be opened"},
      {"opened by another part", 2, nothing, 0, "file",
       "is part 2 of 3 of a split model; name its first part, which ends in -00001-of-00003.gguf"},
      {"a part twice", 1, [](auto& parts) { parts[2] = parts[1]; }, 0, "part 3 of 3",
       "says that it is part 2 of 3; it has another part's name, or belongs to another model"},
      {"a part of another split", 1,
       [](auto& parts) { parts[1].set("split.count", std::uint32_t{4}); }, 0, "part 2 of 3",
       "says that it is part 2 of 4"},
      {"a part that is no part", 1, [](auto& parts) { parts[1].erase("split.count"); }, 0,
       "part 2 of 3", "is part 2 of 1; it has"},
      {"a tensor twice", 1,
       [](auto& parts) {
         parts[2].tensors.push_back(parts[0].tensors[0]);
         for (auto& part : parts) part.erase("split.tensors.count");
       },
       0, "part 3 of 3", "repeats tensor token_embd.weight"},
      {"a tensor too few", 1, [](auto& parts) { parts[1].tensors.pop_back(); }, 0,
       "key split.tensors.count", "but the parts hold"},
      {"a number of tensors that is no number", 1,
       [](auto& parts) { parts[0].set("split.tensors.count", std::int32_t{-1}); }, 0,
       "key split.tensors.count", "integer of 0 or more"},
      {"too many parts", 1,
       [](auto& parts) { parts[0].set("split.count", std::uint32_t{70'000}); }, 0,
       "key split.count", "at most 1000 parts"},
      {"a count that is text", 1,
       [](auto& parts) { parts[0].set("split.count", std::string("3")); }, 0, "key split.count",
       "string"},
  };
  for (const WrongParts& wrong : cases) {
    SCOPED_TRACE(wrong.name);
    const gateway::TempFolder folder;
    std::vector<GgufImage> parts = split(tests::random_llama({}, 8), 3);
    wrong.change(parts);
    for (std::size_t i = 1; i <= 3; ++i) {
      if (i != wrong.missing) write(folder, part_name(i), parts[i - 1]);
    }
    const auto file = GgufFile::open((folder / part_name(wrong.open_part)).string());
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().where, wrong.where);
    EXPECT_NE(file.error().what.find(wrong.what), std::string::npos) << file.error().what;
  }
}

TEST(GgufSplit, ABrokenPartIsNamedWithItsByte) {
  const gateway::TempFolder folder;
  const std::vector<GgufImage> parts = split(tests::random_llama({}, 9), 3);
  for (std::size_t i = 1; i <= 3; ++i) write(folder, part_name(i), parts[i - 1]);
  folder.write(part_name(2), "GGUF");
  const auto file = GgufFile::open((folder / part_name(1)).string());
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().where, "part 2 of 3 (m-00002-of-00003.gguf)");
  EXPECT_NE(file.error().what.find("byte "), std::string::npos) << file.error().what;
}

TEST(GgufSplit, AFirstPartUnderAnotherNameSaysWhyTheRestIsNotFound) {
  const gateway::TempFolder folder;
  write(folder, "renamed.gguf", split(tests::random_llama({}, 9), 3)[0]);
  const auto file = GgufFile::open((folder / "renamed.gguf").string());
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().where, "file");
  EXPECT_NE(file.error().what.find("does not end in -00001-of-00003.gguf"), std::string::npos);
}

}  // namespace
}  // namespace turnstile

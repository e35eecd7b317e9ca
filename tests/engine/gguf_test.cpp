#include "engine/loader/gguf.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tests/support/golden_files.h"
#include "tests/support/raw_gguf.h"
#include "tests/support/temp_folder.h"

namespace turnstile::engine {
namespace {

using namespace tests;

constexpr std::uint32_t kUint32 = 4, kInt32 = 5, kFloat32 = 6, kBool = 7, kString = 8, kArray = 9,
                        kUint64 = 10, kInt64 = 11, kFloat64 = 12;
constexpr std::uint32_t kF32 = 0, kQ4_1 = 3, kQ8_0 = 8;

// Two tensors of 128 and 80 bytes behind keys of every kind.
RawGguf good_image() {
  RawGguf image;
  image.keys = {
      raw_key("general.architecture", kString, raw_text("llama")),
      raw_key("general.alignment", kUint32, raw_u32(32)),
      raw_key("a.u64", kUint64, raw_u64(1ull << 40)),
      raw_key("a.negative", kInt64, raw_number<std::int64_t>(-5)),
      raw_key("a.f32", kFloat32, raw_number(0.5f)),
      raw_key("a.f64", kFloat64, raw_number(0.25)),
      raw_key("a.bool", kBool, std::string(1, '\1')),
      raw_key("a.texts", kArray, raw_array(kString, 2, raw_text("one") + raw_text(""))),
      raw_key("a.ints", kArray, raw_array(kInt32, 3, raw_u32(1) + raw_u32(2) + raw_u32(~0u))),
  };
  image.tensors = {raw_tensor("norm", {32}, kF32, 0), raw_tensor("w", {32, 4}, kQ4_1, 128)};
  image.data = std::string(128, 'n') + std::string(80, 'w');
  return image;
}

std::span<const std::byte> as_bytes(const std::string& bytes) {
  return {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()};
}

TEST(Gguf, ReadsKeysByTypeAndTensorsByName) {
  const std::string bytes = good_image().bytes();
  const auto file = GgufFile::parse(as_bytes(bytes));
  ASSERT_TRUE(file) << file.error().where << ": " << file.error().what;
  EXPECT_EQ(file->version(), 3u);
  EXPECT_EQ(file->file_bytes(), bytes.size());
  EXPECT_EQ(file->get_string("general.architecture"), "llama");
  EXPECT_EQ(file->get_uint("a.u64"), 1ull << 40);
  EXPECT_EQ(file->get_float("a.f32"), 0.5);
  EXPECT_EQ(file->get_float("a.f64"), 0.25);
  EXPECT_EQ(file->get_bool("a.bool"), true);
  EXPECT_EQ(file->get_strings("a.texts"), (std::vector<std::string_view>{"one", ""}));
  EXPECT_EQ(file->get_ints("a.ints"), (std::vector<std::int64_t>{1, 2, -1}));
  ASSERT_EQ(file->tensors().size(), 2u);
  const GgufTensor* tensor = file->find_tensor("w");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->shape, (std::vector<std::uint64_t>{32, 4}));
  EXPECT_EQ(tensor->type, kQ4_1);
  ASSERT_EQ(tensor->data.size(), 80u);
  EXPECT_EQ(tensor->data.front(), std::byte{'w'});
  EXPECT_EQ(file->find_tensor("norm")->data.size(), 128u);
  EXPECT_EQ(file->find_tensor("absent"), nullptr);
}

TEST(Gguf, ReadsVersion2) {
  RawGguf image = good_image();
  image.version = 2;
  const std::string bytes = image.bytes();
  EXPECT_TRUE(GgufFile::parse(as_bytes(bytes)));
}

TEST(Gguf, GivesNothingForAbsentKeysAndOtherTypes) {
  const std::string bytes = good_image().bytes();
  const auto file = GgufFile::parse(as_bytes(bytes));
  ASSERT_TRUE(file);
  EXPECT_FALSE(file->has_key("absent"));
  EXPECT_EQ(file->get_uint("absent"), std::nullopt);
  EXPECT_EQ(file->get_uint("a.negative"), std::nullopt);
  EXPECT_EQ(file->get_uint("a.f32"), std::nullopt);
  EXPECT_EQ(file->get_uint("a.bool"), std::nullopt);
  EXPECT_EQ(file->get_float("a.u64"), std::nullopt);
  EXPECT_EQ(file->get_string("a.u64"), std::nullopt);
  EXPECT_EQ(file->get_bool("a.u64"), std::nullopt);
  EXPECT_EQ(file->get_strings("a.ints"), std::nullopt);
  EXPECT_EQ(file->get_ints("a.texts"), std::nullopt);
  EXPECT_EQ(file->require_uint("absent").error().where, "key absent");
  EXPECT_EQ(file->require_uint("absent").error().what,
            "must be an integer of 0 or more, is missing");
  EXPECT_EQ(file->require_string("a.u64").error().what,
            "must be a string, is another value of type uint64");
  EXPECT_EQ(file->require_float("a.texts").error().what, "must be a float, is of type array");
}

TEST(Gguf, PrintsEveryKeyShortly) {
  RawGguf image = good_image();
  image.keys.push_back(raw_key("a.long", kString, raw_text(std::string(500, 'x') + "\n")));
  image.keys.push_back(raw_key("a.strange", kString, raw_text("\x1b[2J\xc2\x9b\"\\\n")));
  const std::string bytes = image.bytes();
  const auto file = GgufFile::parse(as_bytes(bytes));
  ASSERT_TRUE(file);
  const auto keys = file->printable_keys();
  ASSERT_EQ(keys.size(), 11u);
  EXPECT_EQ(keys[0], std::pair(std::string("general.architecture"), std::string("\"llama\"")));
  EXPECT_EQ(keys[3].second, "-5");
  EXPECT_EQ(keys[4].second, "0.5");
  EXPECT_EQ(keys[6].second, "true");
  EXPECT_EQ(keys[7].second, "2 strings");
  EXPECT_EQ(keys[8].second, "3 values of type int32");
  EXPECT_EQ(keys[9].second, "\"" + std::string(60, 'x') + "\" (501 bytes)");
  EXPECT_EQ(keys[10].second, "\"\\x1b[2J\\xc2\\x9b\\\"\\\\\\n\"");
}

struct Corruption {
  const char* name;
  std::function<void(RawGguf&)> apply;
  const char* where;
  const char* what;  // a part of the sentence
};

void PrintTo(const Corruption& corruption, std::ostream* out) { *out << corruption.name; }

constexpr std::uint64_t kHuge = ~std::uint64_t{0};

const std::vector<Corruption>& corruptions() {
  static const std::vector<Corruption> table = {
      {"Magic", [](RawGguf& g) { g.magic = "GGUG"; }, "byte 0", "not a GGUF file"},
      {"Version0", [](RawGguf& g) { g.version = 0; }, "byte 4", "version 0 is not supported"},
      {"Version1", [](RawGguf& g) { g.version = 1; }, "byte 4", "version 1 is not supported"},
      {"Version4", [](RawGguf& g) { g.version = 4; }, "byte 4", "version 4 is not supported"},
      {"BigEndian", [](RawGguf& g) { g.version = 3u << 24; }, "byte 4", "big-endian"},
      {"TensorCountHuge", [](RawGguf& g) { g.tensor_count = kHuge; }, "byte 8", "tensor count"},
      {"TensorCountBillion", [](RawGguf& g) { g.tensor_count = 1'000'000'000; }, "byte 8",
       "more than the file can hold"},
      {"TensorCountOneMore", [](RawGguf& g) { g.tensor_count = 3; }, "byte 391",
       "tensor 2 has a name of 0 bytes"},
      {"KeyCountHuge", [](RawGguf& g) { g.key_count = kHuge; }, "byte 16", "key count"},
      {"KeyCountBillion", [](RawGguf& g) { g.key_count = 1ull << 32; }, "byte 16",
       "more than the file can hold"},
      {"KeyEmpty", [](RawGguf& g) { g.keys[2] = raw_key("", kUint32, raw_u32(1)); }, "byte 102",
       "key 2 has a name of 0 bytes"},
      {"KeyTooLong",
       [](RawGguf& g) { g.keys[2] = raw_key(std::string(65'536, 'k'), kUint32, raw_u32(1)); },
       "byte 102", "key 2 has a name of 65536 bytes"},
      {"KeyWithNul",
       [](RawGguf& g) { g.keys[2] = raw_key(std::string_view("a\0b", 3), kUint32, raw_u32(1)); },
       "byte 102", "printable ASCII"},
      {"KeyLengthHuge", [](RawGguf& g) { g.keys[2] = raw_u64(kHuge) + "a"; }, "byte 102",
       "the file ends inside the name of key 2"},
      {"KeyTwice", [](RawGguf& g) { g.keys[3] = g.keys[2]; }, "key a.u64", "occurs twice"},
      {"ValueTypeUnknown", [](RawGguf& g) { g.keys[2] = raw_key("k", 13, raw_u64(0)); }, "key k",
       "value type 13 is unknown"},
      {"StringLengthHuge", [](RawGguf& g) { g.keys[2] = raw_key("k", kString, raw_u64(kHuge)); },
       "key k", "beyond the end of the file"},
      {"BoolTwo", [](RawGguf& g) { g.keys[2] = raw_key("k", kBool, "\2"); }, "key k",
       "a bool must be 0 or 1"},
      {"BoolInArray",
       [](RawGguf& g) { g.keys[2] = raw_key("k", kArray, raw_array(kBool, 2, "\1\2")); }, "key k",
       "a bool must be 0 or 1"},
      {"ArrayOfArrays",
       [](RawGguf& g) { g.keys[2] = raw_key("k", kArray, raw_array(kArray, 1, raw_u64(0))); },
       "key k", "array of arrays"},
      {"ArrayElementUnknown",
       [](RawGguf& g) { g.keys[2] = raw_key("k", kArray, raw_array(99, 1, raw_u64(0))); }, "key k",
       "element type 99 is unknown"},
      {"ArrayCountHuge",
       [](RawGguf& g) { g.keys[2] = raw_key("k", kArray, raw_array(kUint64, kHuge, "")); }, "key k",
       "elements goes beyond the end"},
      // 2^61 elements of 8 bytes: the product wraps to 0.
      {"ArrayBytesWrap",
       [](RawGguf& g) { g.keys[2] = raw_key("k", kArray, raw_array(kUint64, 1ull << 61, "")); },
       "key k", "elements goes beyond the end"},
      {"StringArrayCountHuge",
       [](RawGguf& g) { g.keys[2] = raw_key("k", kArray, raw_array(kString, kHuge, "")); }, "key k",
       "elements goes beyond the end"},
      {"StringInArrayHuge",
       [](RawGguf& g) { g.keys[2] = raw_key("k", kArray, raw_array(kString, 1, raw_u64(kHuge))); },
       "key k", "string 0 of 1 goes beyond the end"},
      {"AlignmentOfWrongType",
       [](RawGguf& g) { g.keys[1] = raw_key("general.alignment", kString, raw_text("32")); },
       "key general.alignment", "must be a uint32, is string"},
      {"AlignmentZero",
       [](RawGguf& g) { g.keys[1] = raw_key("general.alignment", kUint32, raw_u32(0)); },
       "key general.alignment", "0 is not a power of two"},
      {"AlignmentOdd",
       [](RawGguf& g) { g.keys[1] = raw_key("general.alignment", kUint32, raw_u32(33)); },
       "key general.alignment", "33 is not a power of two"},
      {"AlignmentSmall",
       [](RawGguf& g) { g.keys[1] = raw_key("general.alignment", kUint32, raw_u32(4)); },
       "key general.alignment", "4 is not a power of two from 8"},
      {"AlignmentLarge",
       [](RawGguf& g) { g.keys[1] = raw_key("general.alignment", kUint32, raw_u32(1u << 31)); },
       "key general.alignment", "2147483648 is not"},
      {"TensorNameEmpty", [](RawGguf& g) { g.tensors[1] = raw_tensor("", {32}, kF32, 128); },
       "byte 350", "tensor 1 has a name of 0 bytes"},
      {"TensorNameLong",
       [](RawGguf& g) { g.tensors[1] = raw_tensor(std::string(65, 't'), {32}, kF32, 128); },
       "byte 350", "tensor 1 has a name of 65 bytes"},
      {"TensorNameControl", [](RawGguf& g) { g.tensors[1] = raw_tensor("a\x1b", {32}, kF32, 128); },
       "byte 350", "control character"},
      {"TensorTwice", [](RawGguf& g) { g.tensors[1] = raw_tensor("norm", {20}, kF32, 128); },
       "tensor norm", "occurs twice"},
      {"NoDimensions", [](RawGguf& g) { g.tensors[1] = raw_tensor("w", {}, kF32, 128); },
       "tensor w", "0 dimensions"},
      {"FiveDimensions",
       [](RawGguf& g) {
         g.tensors[1] = raw_tensor("w", {1, 1, 1, 1, 1}, kF32, 128);
       },
       "tensor w", "5 dimensions"},
      {"DimensionZero",
       [](RawGguf& g) {
         g.tensors[1] = raw_tensor("w", {4, 0}, kF32, 128);
       },
       "tensor w", "dimension 0 is not"},
      {"DimensionNegative", [](RawGguf& g) { g.tensors[1] = raw_tensor("w", {kHuge}, kF32, 128); },
       "tensor w", "dimension 18446744073709551615 is not"},
      {"DimensionProductWraps",
       [](RawGguf& g) {
         g.tensors[1] = raw_tensor("w", {1u << 31, 1u << 31, 1u << 31}, kF32, 128);
       },
       "tensor w", "does not fit 64 bits"},
      {"TypeUnknown", [](RawGguf& g) { g.tensors[1] = raw_tensor("w", {32}, 4, 128); }, "tensor w",
       "tensor type 4 is unknown"},
      {"TypeHuge", [](RawGguf& g) { g.tensors[1] = raw_tensor("w", {32}, ~0u, 128); }, "tensor w",
       "tensor type 4294967295 is unknown"},
      {"RowNotWholeBlocks", [](RawGguf& g) { g.tensors[1] = raw_tensor("w", {33}, kQ8_0, 128); },
       "tensor w", "rows of 33 elements are not whole blocks of 32 (Q8_0)"},
      {"OffsetUnaligned", [](RawGguf& g) { g.tensors[1] = raw_tensor("w", {4}, kF32, 129); },
       "tensor w", "offset 129 is not a multiple of the alignment 32"},
      {"OffsetBeyondEnd", [](RawGguf& g) { g.tensors[1] = raw_tensor("w", {4}, kF32, 1u << 20); },
       "tensor w", "beyond the end of the file"},
      // offset + size wraps to a small number.
      {"OffsetWraps", [](RawGguf& g) { g.tensors[1] = raw_tensor("w", {32}, kF32, kHuge - 31); },
       "tensor w", "beyond the end of the file"},
      {"OneByteShort", [](RawGguf& g) { g.data.pop_back(); }, "tensor w",
       "80 bytes at offset 128 go beyond the end of the file (207 bytes of data)"},
      {"Overlap",
       [](RawGguf& g) {
         g.tensors[1] = raw_tensor("w", {32, 4}, kQ4_1, 96);
       },
       "tensor w", "overlaps that of tensor norm"},
      {"SameData", [](RawGguf& g) { g.tensors[1] = raw_tensor("w", {32}, kF32, 0); }, "tensor ",
       "overlaps that of tensor"},
  };
  return table;
}

class CorruptGguf : public testing::TestWithParam<Corruption> {};

TEST_P(CorruptGguf, IsRefusedWithPlaceAndReason) {
  RawGguf image = good_image();
  GetParam().apply(image);
  const std::string bytes = image.bytes();
  const auto file = GgufFile::parse(as_bytes(bytes));
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().where.substr(0, std::string(GetParam().where).size()), GetParam().where);
  EXPECT_NE(file.error().what.find(GetParam().what), std::string::npos) << file.error().what;
}

INSTANTIATE_TEST_SUITE_P(EachField, CorruptGguf, testing::ValuesIn(corruptions()),
                         [](const auto& entry) { return entry.param.name; });

TEST(Gguf, EveryTypeNumberIsReadOrRefused) {
  for (std::uint32_t type = 0; type < 300; ++type) {
    RawGguf image = good_image();
    image.tensors[1] = raw_tensor("w", {256}, type, 128);
    image.data.resize(128 + 256 * 8);
    const std::string tensor_bytes = image.bytes();
    const auto info = find_gguf_type(type);
    const auto file = GgufFile::parse(as_bytes(tensor_bytes));
    ASSERT_EQ(file.has_value(), info.has_value()) << type;
    if (file) {
      EXPECT_EQ(file->find_tensor("w")->data.size(),
                256 / info->block_elements * info->block_bytes);
    }
    RawGguf other = good_image();
    other.keys.push_back(raw_key("k", type, std::string(24, '\0')));
    const std::string key_bytes = other.bytes();
    EXPECT_EQ(GgufFile::parse(as_bytes(key_bytes)).has_value(), false) << type;
  }
}

// A file cut anywhere is refused, unless only padding at its end is lost.
TEST(Gguf, EveryTruncationIsRefused) {
  const std::string bytes = good_image().bytes();
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const std::string part = bytes.substr(0, length);
    EXPECT_FALSE(GgufFile::parse(as_bytes(part))) << length;
  }
}

// Whatever comes in, everything that is handed out lies inside the image.
void expect_inside(const GgufFile& file, const std::string& bytes) {
  const auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
  const auto* end = begin + bytes.size();
  std::uint64_t total = 0;
  for (const GgufTensor& tensor : file.tensors()) {
    ASSERT_GE(tensor.data.data(), begin);
    ASSERT_LE(tensor.data.data() + tensor.data.size(), end);
    total += tensor.data.size();
  }
  ASSERT_LE(total, bytes.size());
  for (const auto& [key, text] : file.printable_keys()) {
    ASSERT_LE(text.size(), 4 * 60 + 40u);
    if (const auto strings = file.get_strings(key)) {
      for (const std::string_view s : *strings) {
        ASSERT_GE(reinterpret_cast<const std::byte*>(s.data()), begin);
        ASSERT_LE(reinterpret_cast<const std::byte*>(s.data() + s.size()), end);
      }
    }
    file.get_ints(key);
    file.get_uint(key);
    file.get_float(key);
    file.get_bool(key);
  }
}

TEST(Gguf, ThousandsOfBitFlipsNeverReachOutside) {
  const std::string good = good_image().bytes();
  std::size_t accepted = 0;
  for (std::uint32_t seed = 0; seed < 20'000; ++seed) {
    std::mt19937 random(seed);
    std::string bytes = good;
    const std::size_t flips = 1 + random() % 4;
    for (std::size_t i = 0; i < flips; ++i) {
      // Mostly the header, where it matters.
      const std::size_t at = random() % (random() % 8 == 0 ? bytes.size() : bytes.size() - 208);
      bytes[at] = static_cast<char>(bytes[at] ^ 1 << random() % 8);
    }
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto file = GgufFile::parse(as_bytes(bytes));
    if (file) {
      ++accepted;
      expect_inside(*file, bytes);
    } else {
      ASSERT_FALSE(file.error().where.empty());
      ASSERT_FALSE(file.error().what.empty());
    }
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(accepted, 1'000u) << "the flips do not reach the reader's later stages";
}

// All bytes of a number replaced by extreme ones, at every place of the header.
TEST(Gguf, ExtremeNumbersAtEveryPlaceNeverReachOutside) {
  const std::string good = good_image().bytes();
  for (std::size_t at = 0; at + 8 < good.size() - 208; ++at) {
    for (const std::uint64_t number : {std::uint64_t{0}, kHuge, std::uint64_t{1} << 63,
                                       std::uint64_t{1} << 32, kHuge - 31, kHuge >> 1}) {
      std::string bytes = good;
      std::memcpy(bytes.data() + at, &number, sizeof number);
      if (const auto file = GgufFile::parse(as_bytes(bytes))) expect_inside(*file, bytes);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Gguf, OpensMovesAndUnmapsAFile) {
  const gateway::TempFolder folder;
  const std::string path = (folder / "model.gguf").string();
  std::ofstream(path, std::ios::binary) << good_image().bytes();
  auto opened = GgufFile::open(path);
  ASSERT_TRUE(opened) << opened.error().what;
  GgufFile moved = std::move(*opened);
  EXPECT_EQ(opened->file_bytes(), 0u);
  EXPECT_EQ(moved.get_string("general.architecture"), "llama");
  EXPECT_EQ(moved.find_tensor("w")->data.front(), std::byte{'w'});
  auto again = GgufFile::open(path);
  ASSERT_TRUE(again);
  moved = std::move(*again);
  EXPECT_EQ(moved.find_tensor("norm")->data.back(), std::byte{'n'});
}

TEST(Gguf, RefusesWhatIsNoRegularFile) {
  const gateway::TempFolder folder;
  EXPECT_NE(GgufFile::open((folder / "absent").string()).error().what.find("No such file"),
            std::string::npos);
  EXPECT_EQ(GgufFile::open(folder.path().string()).error().what, "is not a regular file");
  EXPECT_EQ(GgufFile::open("/dev/zero").error().what, "is not a regular file");
  const std::string empty = (folder / "empty").string();
  std::ofstream(empty).close();
  EXPECT_EQ(GgufFile::open(empty).error().what, "is empty");
}

TEST(Gguf, ReadsTheDefaultModel) {
  const auto path = test_model_path();
  if (!path) GTEST_SKIP() << kNoTestModel;
  const auto file = GgufFile::open(*path);
  ASSERT_TRUE(file) << file.error().where << ": " << file.error().what;
  EXPECT_EQ(file->tensors().size(), 272u);
  EXPECT_EQ(file->printable_keys().size(), 33u);
  EXPECT_EQ(file->get_uint("llama.block_count"), 30u);
  EXPECT_EQ(file->get_strings("tokenizer.ggml.merges")->size(), 48'900u);
}

}  // namespace
}  // namespace turnstile::engine

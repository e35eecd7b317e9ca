// What `turnstile model info` says of a file, right ones and wrong ones.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>

#include "engine/loader/load_model.h"
#include "gateway/ids.h"
#include "gateway/verbs/run.h"
#include "tests/support/golden_files.h"
#include "tests/support/manual_clock.h"
#include "tests/support/temp_folder.h"

namespace turnstile::gateway {
namespace {

struct Answer {
  ExitCode code = ExitCode::Done;
  std::string out;
  std::string err;

  // What a line says behind its name.
  std::string line(std::string_view name) const {
    const std::size_t at = out.find("\n" + std::string(name) + " ");
    if (at == std::string::npos) return {};
    const std::size_t begin = out.find_first_not_of(' ', at + 1 + name.size());
    return out.substr(begin, out.find('\n', begin) - begin);
  }
};

Answer info(const std::filesystem::path& file) {
  ManualClock clock;
  SeededRandom random{11};
  std::ostringstream out;
  std::ostringstream err;
  const ExitCode code = run(ModelInfoOptions{file, {}}, {out, err, clock, random});
  return {code, out.str(), err.str()};
}

std::string tiny_model() {
  std::ifstream in(tests::golden_path("tiny/llama/model.gguf"), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(ModelInfo, AFileThatIsNoModelIsTheEnvironmentsFault) {
  const TempFolder folder;
  const Answer bad = info(folder.write("bad.gguf", "GGUFx"));
  EXPECT_EQ(bad.code, ExitCode::Environment);
  EXPECT_NE(bad.err.find("bad.gguf"), std::string::npos);
  EXPECT_EQ(info(folder / "none").code, ExitCode::Environment);
}

TEST(ModelInfo, WeightsAreWhatLoadingTakes) {
  const std::string path = tests::golden_path("tiny/llama/model.gguf");
  const auto loaded = engine::load_model(path, {});
  ASSERT_TRUE(loaded);
  const auto tenths = static_cast<std::uint64_t>(
      static_cast<double>(loaded->weight_bytes) / (1 << 20) * 10 + 0.5);
  const Answer answer = info(path);
  EXPECT_EQ(answer.line("weights"), std::to_string(tenths / 10) + "." +
                                        std::to_string(tenths % 10) + " MiB in memory");
  EXPECT_EQ(answer.line("served by this build"), "yes");
}

// The file can be read, but no product knows integers.
TEST(ModelInfo, AModelWithATensorThatNoKernelKnowsIsNotServed) {
  std::string file = tiny_model();
  const std::string name = "blk.0.ffn_down.weight";
  const std::size_t type_at = file.find(name) + name.size() + 4 + 2 * 8;
  std::uint32_t type = 0;
  std::memcpy(&type, file.data() + type_at, sizeof type);
  ASSERT_EQ(type, 0U) << "F32";
  const std::uint32_t integers = 26;
  std::memcpy(file.data() + type_at, &integers, sizeof integers);
  const TempFolder folder;
  const Answer answer = info(folder.write("integers.gguf", file));
  EXPECT_EQ(answer.code, ExitCode::Done) << answer.err;
  EXPECT_TRUE(answer.line("served by this build").starts_with("no: tensor " + name))
      << answer.out;
}

TEST(ModelInfo, DescribesTheRealModel) {
  const auto model = tests::test_model_path();
  if (!model) GTEST_SKIP() << tests::kNoTestModel;
  const Answer answer = info(*model);
  ASSERT_EQ(answer.code, ExitCode::Done) << answer.err;
  for (const char* part : {"llama", "Q4_1", "tokens", "chat template", "KV cache",
                           "KV cache int8", " of 1024 tokens", "yes"}) {
    EXPECT_NE(answer.out.find(part), std::string::npos) << part << "\n" << answer.out;
  }
}

}  // namespace
}  // namespace turnstile::gateway

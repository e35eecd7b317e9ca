// `serve --check` on a model that loads: what is legal and yet of no use to anybody.
#include "gateway/serve.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <tuple>

#include "gateway/config/config.h"
#include "gateway/verbs/run.h"
#include "tests/support/golden_files.h"
#include "tests/support/manual_clock.h"
#include "tests/support/temp_folder.h"

namespace turnstile::gateway {
namespace {

TEST(ServeCheck, SaysWhichKeysThePolicyDoesNotKnow) {
  TempFolder folder;
  ManualClock clock;
  SeededRandom random(3);
  std::ostringstream out;
  std::ostringstream err;
  const Surroundings around{out, err, clock, random};
  ASSERT_EQ(run(InitOptions{folder / "home", tests::golden_path("tiny/llama/model.gguf")}, around),
            ExitCode::Done);
  for (const auto& [id, team, max_class] :
       {std::tuple{"lost", "lab", "demo"}, std::tuple{"humble", "lab", "batch"}}) {
    ASSERT_EQ(run(KeysCreateOptions{folder / "home/turnstile.toml", team, id, max_class, {}},
                  around),
              ExitCode::Done) << err.str();
  }
  std::string keys = folder.read("home/keys.toml");
  keys.replace(keys.find("team = \"lab\"", keys.find("lost")), 12, "team = \"lba\"");
  keys.replace(keys.find("\"batch\""), 7, "\"botch\"");
  folder.write("home/keys.toml", keys);

  const auto config = load_config(folder / "home/turnstile.toml", {});
  ASSERT_TRUE(config);
  err.str("");
  EXPECT_EQ(check_serve(*config, around), ExitCode::Done) << err.str();
  const std::string file = (folder / "home/keys.toml").string();
  EXPECT_NE(err.str().find(file + ": warning: key lost: its team does not exist in the policy\n"),
            std::string::npos) << err.str();
  EXPECT_NE(err.str().find(file + ": warning: key humble: max_class names a class"),
            std::string::npos) << err.str();
  EXPECT_EQ(err.str().find("key first"), std::string::npos) << err.str();
  EXPECT_NE(out.str().find("models.path = "), std::string::npos);
}

}  // namespace
}  // namespace turnstile::gateway

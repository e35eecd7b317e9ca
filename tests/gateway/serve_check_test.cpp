// `serve --check` on a model that loads: what is legal and yet of no use to anybody.
#include "gateway/serve.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <tuple>

#include "gateway/config/config.h"
#include "gateway/event_loop.h"
#include "gateway/http/listener.h"
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

// `--check` passed them, and `serve` then spoke of another program and of ports.
TEST(ServeCheck, APathWhereNoSocketCanBeIsRefusedInItsOwnWords) {
  TempFolder folder;
  ManualClock clock;
  SeededRandom random(3);
  std::ostringstream out;
  std::ostringstream err;
  const Surroundings around{out, err, clock, random};
  ASSERT_EQ(run(InitOptions{folder / "home", tests::golden_path("tiny/llama/model.gguf")}, around),
            ExitCode::Done);
  auto config = load_config(folder / "home/turnstile.toml", {});
  ASSERT_TRUE(config);
  for (const auto& [path, why] : {std::pair{std::string(200, 's'), "File name too long"},
                                  std::pair{std::string("none/admin.sock"), "No such file"}}) {
    config->server.admin_listen.unix_path = folder / path;
    err.str("");
    EXPECT_EQ(check_serve(*config, around), ExitCode::Environment);
    EXPECT_EQ(err.str().find("cannot listen on unix:" + (folder / path).string() + ": " + why), 0U)
        << err.str();
    EXPECT_NE(err.str().find("; check admin_listen"), std::string::npos) << err.str();
  }
  ListenAddress address;
  address.unix_path = folder.write("file", "");
  EventLoop loop(clock);
  const auto listening = Listener::open(loop, address, "admin_listen");
  ASSERT_FALSE(listening);
  EXPECT_EQ(listening.error(),
            "cannot listen on unix:" + address.unix_path.string() +
                ": Address already in use; it is there and no socket: remove it, or give "
                "admin_listen another path");
}

}  // namespace
}  // namespace turnstile::gateway

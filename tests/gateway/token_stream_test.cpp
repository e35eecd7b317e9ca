// What an answer holds of each token.
#include "gateway/token_stream.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tests/support/spine_world.h"

namespace turnstile::tests {
namespace {

std::size_t count(std::string_view text, std::string_view what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++found;
  return found;
}

// The end token is generated and counted, so it stands with the others, although it has no text.
TEST(TokenStream, IdsAndLogprobsAreAsManyAsUsageCounts) {
  SpineWorld world;
  for (const bool stream : {false, true}) {
    for (const std::uint32_t tokens : {0U, 8U}) {
      FakePlan plan;
      plan.completion_tokens = tokens;
      world.engine.plan = [plan](const engine::Request&) { return plan; };
      const std::string more =
          stream ? R"(,"stream":true,"stream_options":{"include_usage":true})" : "";
      MemoryClient client = world.connect();
      client.send(world.post("/v1/chat/completions",
                             R"({"messages":[{"role":"user","content":"hi"}],"logprobs":true,)"
                             R"("return_token_ids":true)" + more + "}"));
      world.run_engine();
      std::string bytes = client.take();
      const auto answer = take_answer(bytes);
      ASSERT_TRUE(answer);
      const std::string& body = answer->body;
      const std::size_t expected = tokens + 1;
      EXPECT_EQ(count(body, "\"completion_tokens\":" + std::to_string(expected)), 1U) << body;
      EXPECT_EQ(count(body, "\"logprob\":"), expected) << body;
      EXPECT_EQ(count(body, "\"token_ids\":["), stream ? expected : 1) << body;
      const std::string before = stream || tokens == 0 ? "\"token_ids\":[" : "6,7,";
      EXPECT_EQ(count(body, before + "63]"), 1U) << "the end token\n" << body;
      EXPECT_EQ(count(body, "\"finish_reason\":\"stop\""), 1U) << body;
    }
  }
}

}  // namespace
}  // namespace turnstile::tests

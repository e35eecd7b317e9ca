// x-admission-ticket: its text, and its way out with a refusal and back with the retry.
#include "gateway/tickets.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/spine_world.h"

namespace turnstile::gateway {
namespace {

TEST(TicketTexts, ReadsWhatItWroteAndNothingElse) {
  SeededRandom random(7);
  TicketTexts texts;
  const std::string nothing(32, '0');
  EXPECT_EQ(texts.read(nothing), policy::RequestId{0}) << "none was written yet";
  const std::string text = texts.text(policy::RequestId{4711}, random);
  EXPECT_EQ(text.size(), 32u);
  EXPECT_EQ(texts.read(text), policy::RequestId{4711});
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = changed[i] == '0' ? '1' : '0';
    EXPECT_EQ(texts.read(changed), policy::RequestId{0}) << "digit " << i;
  }
  for (const std::string& bad : {std::string(), text.substr(1), text + "0", "x" + text.substr(1),
                                 nothing, "-" + text.substr(1)}) {
    EXPECT_EQ(texts.read(bad), policy::RequestId{0}) << bad;
  }
  TicketTexts of_another_process;
  EXPECT_NE(of_another_process.text(policy::RequestId{4711}, random), text);
  EXPECT_EQ(of_another_process.read(text), policy::RequestId{0});
}

constexpr std::string_view kTicketRoute = "/v1/completions";
constexpr std::string_view kBody = R"({"prompt":"hello","max_tokens":4})";

// One runs, one waits, and there is no place for a third.
struct FullHouse {
  FullHouse() : world(options()) {
    for (tests::MemoryClient* client : {&runs, &waits}) send(*client, kBody, {});
  }
  static tests::SpineWorldOptions options() {
    tests::SpineWorldOptions options;
    options.policy = "[depts.main]\n[teams.lab]\ndept = \"main\"\nqueue_requests = 1\n";
    options.engine.sequences = 1;
    return options;
  }
  void send(tests::MemoryClient& client, std::string_view body, const std::string& ticket) {
    const std::string line = ticket.empty() ? "" : "X-Admission-Ticket: " + ticket + "\r\n";
    client.send(world.post(kTicketRoute, body, 0, line));
    world.settle();
  }
  tests::HttpAnswer ask(std::string_view body, const std::string& ticket = {}) {
    tests::MemoryClient client = world.connect();
    send(client, body, ticket);
    world.run_engine();
    std::string bytes = client.take();
    return tests::take_answer(bytes, client.server_has_ended()).value_or(tests::HttpAnswer{});
  }
  tests::HttpAnswer refused_at_once() {
    tests::MemoryClient client = world.connect();
    send(client, kBody, {});
    std::string bytes = client.take();
    return tests::take_answer(bytes, client.server_has_ended()).value_or(tests::HttpAnswer{});
  }

  tests::SpineWorld world;
  tests::MemoryClient runs = world.connect();
  tests::MemoryClient waits = world.connect();
};

TEST(Ticket, GoesOutWithTheRefusalAndKeepsThePlaceAtTheRetry) {
  FullHouse house;
  const tests::HttpAnswer refused = house.refused_at_once();
  ASSERT_EQ(refused.status, 429);
  EXPECT_EQ(refused.header("x-admission-code"), "queue_full");
  const std::string ticket(refused.header("x-admission-ticket"));
  ASSERT_EQ(ticket.size(), 32u);
  EXPECT_NE(house.world.audit_text().find("\"ticket\":\"" + ticket + "\""), std::string::npos);

  const std::string forged(32, '7');
  tests::MemoryClient stranger = house.world.connect();
  house.send(stranger, kBody, forged);
  std::string bytes = stranger.take();
  const auto answer = tests::take_answer(bytes, stranger.server_has_ended());
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 429);
  EXPECT_NE(answer->body.find(R"("ticket":"unknown")"), std::string::npos);

  const std::string wait_ms(refused.header("retry-after-ms"));
  ASSERT_FALSE(wait_ms.empty());
  house.world.advance(std::chrono::milliseconds(std::stoll(wait_ms)));
  const tests::HttpAnswer kept = [&] {
    house.world.run_engine();
    return house.ask(kBody, ticket);
  }();
  EXPECT_EQ(kept.status, 200);
  EXPECT_NE(kept.body.find(R"("ticket":"kept")"), std::string::npos) << kept.body;
  EXPECT_NE(house.world.audit_text().find(R"("ticket_use":"kept")"), std::string::npos);
}

TEST(Ticket, ShownWithALargerRequestIsAsIfAbsentAndTheAnswerSaysSo) {
  FullHouse house;
  const tests::HttpAnswer refused = house.refused_at_once();
  const std::string ticket(refused.header("x-admission-ticket"));
  house.world.run_engine();
  house.world.advance(std::chrono::seconds(1));
  const tests::HttpAnswer answer = house.ask(R"({"prompt":"hello","max_tokens":5})", ticket);
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.body.find(R"("ticket":"mismatch")"), std::string::npos) << answer.body;
}

}  // namespace
}  // namespace turnstile::gateway

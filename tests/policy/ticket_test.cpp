// x-admission-ticket: a client that waits as told keeps its place, and nobody gains otherwise.
#include "policy/ticket_book.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/policy/front_desk.h"

namespace turnstile::policy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class TicketDesk : public FrontDesk {
 public:
  explicit TicketDesk(std::string_view team_lines)
      : FrontDesk("schema = 1\n[depts.main]\n[teams.red]\ndept = \"main\"\n" +
                      std::string(team_lines) + "\n" + std::string(kWholeEngine),
                  small_engine(), {key_of("anna", "red"), key_of("bob", "red")}) {}

  tl::expected<Queued, Refusal> come(std::uint64_t id, std::string_view key, const Wish& wish,
                                     std::optional<std::uint64_t> ticket = std::nullopt) {
    Ask ask{key, wish.class_name, std::nullopt};
    if (ticket) ask.ticket = RequestId{*ticket};
    auto queued = admission.admit(now, RequestId{id}, *admission.resolve(now, ask), tokens(wish));
    check();
    return queued;
  }
  tl::expected<Queued, Refusal> come(std::uint64_t id, std::string_view key,
                                     std::optional<std::uint64_t> ticket = std::nullopt) {
    return come(id, key, Wish{}, ticket);
  }

  // Four run, two wait, and the third to wait is refused: request 10, with its ticket.
  void fill() {
    for (std::uint64_t id = 1; id <= 6; ++id) {
      ASSERT_TRUE(come(id, "anna"));
      dispatch();
    }
    const auto no = come(10, "anna");
    ASSERT_FALSE(no);
    ASSERT_EQ(no.error().code, RefusalCode::QueueFull);
    ASSERT_EQ(no.error().ticket, RequestId{10});
    told = *no.error().retry_after;
  }

  Duration told{};
};

struct Attack {
  std::string name;
  std::string key = "anna";
  FrontDesk::Wish wish{};
  std::uint64_t ticket = 10;
  Duration after_told{0};
  TicketUse use = TicketUse::Unknown;
};

// Each finds the queue full again: a ticket that does not count is as if there were none.
TEST(Ticket, WhatDoesNotFitIsAsIfAbsent) {
  const std::vector<Attack> attacks = {
      {.name = "forged", .ticket = 99},
      {.name = "unreadable", .ticket = 0},
      {.name = "another key's", .key = "bob"},
      {.name = "early", .after_told = -milliseconds(1), .use = TicketUse::Early},
      {.name = "late", .after_told = seconds(100)},
      {.name = "a longer prompt", .wish = {.prompt = 17}, .use = TicketUse::Mismatch},
      {.name = "a longer answer", .wish = {.max_tokens = 17}, .use = TicketUse::Mismatch},
      {.name = "more answers", .wish = {.choices = 2}, .use = TicketUse::Mismatch},
      {.name = "another class", .wish = {.class_name = "demo"}, .use = TicketUse::Mismatch},
  };
  for (const Attack& attack : attacks) {
    TicketDesk desk("queue_requests = 2");
    desk.fill();
    desk.advance(desk.told + attack.after_told);
    const auto answer = desk.come(11, attack.key, attack.wish, attack.ticket);
    if (!answer) {
      EXPECT_EQ(answer.error().shown, attack.use) << attack.name;
      EXPECT_EQ(answer.error().code, RefusalCode::QueueFull) << attack.name;
    } else {
      EXPECT_EQ(answer->ticket, attack.use) << attack.name;
    }
    // The one it belongs to may still use it.
    if (attack.use == TicketUse::Mismatch || attack.name == "another key's") {
      const auto rightful = desk.come(12, "anna", 10);
      EXPECT_EQ(rightful ? rightful->ticket : rightful.error().shown, TicketUse::Kept)
          << attack.name;
    }
  }
}

TEST(Ticket, EarlyClientHearsTheSameTimeAndKeepsItsTicket) {
  TicketDesk desk("queue_requests = 2");
  desk.fill();
  const Instant from = desk.now + desk.told;
  desk.advance(desk.told / 2);
  const auto early = desk.come(11, "anna", 10);
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().ticket, RequestId{10}) << "no second ticket for the same request";
  EXPECT_EQ(desk.now + *early.error().retry_after, from);
  desk.now = from;
  desk.complete(1);
  desk.dispatch();
  const auto kept = desk.come(12, "anna", 10);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->ticket, TicketUse::Kept);
}

TEST(Ticket, IsUsedOnce) {
  TicketDesk desk("queue_requests = 2");
  desk.fill();
  desk.advance(desk.told);
  desk.complete(1);
  desk.dispatch();
  ASSERT_TRUE(desk.come(11, "anna", 10));
  desk.complete(2);
  desk.dispatch();
  const auto again = desk.come(12, "anna", 10);
  EXPECT_EQ(again ? again->ticket : again.error().shown, TicketUse::Unknown);
}

// Those who came before it stay before it, those who came after it stay after it.
TEST(Ticket, KeepsThePlaceOfTheFirstAttempt) {
  TicketDesk desk("queue_requests = 2");
  desk.fill();
  desk.advance(desk.told);
  desk.complete(1);
  EXPECT_EQ(desk.dispatch(), (std::vector<std::uint64_t>{5}));
  ASSERT_TRUE(desk.come(11, "anna"));  // came after request 10 was refused
  desk.complete(2);
  EXPECT_EQ(desk.dispatch(), (std::vector<std::uint64_t>{6}));
  ASSERT_TRUE(desk.come(12, "anna", 10));
  desk.complete(3);
  EXPECT_EQ(desk.dispatch(), (std::vector<std::uint64_t>{12}));
  desk.complete(4);
  EXPECT_EQ(desk.dispatch(), (std::vector<std::uint64_t>{11}));
}

// A request that was refused again keeps the place of its very first attempt.
TEST(Ticket, RefusedAgainItIsStillTheFirst) {
  TicketDesk desk("queue_requests = 2");
  desk.fill();
  desk.advance(desk.told);
  const auto again = desk.come(11, "anna", 10);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().shown, TicketUse::Kept);
  ASSERT_EQ(again.error().ticket, RequestId{11});
  desk.complete(1);
  desk.dispatch();
  desk.complete(2);
  desk.dispatch();
  ASSERT_TRUE(desk.come(12, "anna"));
  desk.advance(*again.error().retry_after);
  ASSERT_TRUE(desk.come(13, "anna", 11));
  desk.complete(3);
  EXPECT_EQ(desk.dispatch(), (std::vector<std::uint64_t>{13}));
}

// Nothing is kept for a key that has not shown that it comes back; then newcomers leave its room
// alone; and it is lost again when it does not come.
TEST(Ticket, RoomIsKeptForThoseWhoComeBack) {
  TicketDesk desk("requests_per_minute = 60\nbucket_fraction = 0.1");  // six, one each second
  std::uint64_t id = 0;
  const auto drain = [&] {
    for (;;) {
      auto answer = desk.come(++id, "anna", {.max_tokens = 1});
      if (!answer) return answer.error();
      desk.dispatch();
      desk.end(id, EndKind::Completed, 16, 1);
    }
  };
  Refusal refused = drain();
  ASSERT_EQ(refused.code, RefusalCode::RateRequests);
  desk.advance(*refused.retry_after);
  ASSERT_TRUE(desk.come(1000, "bob")) << "nothing is kept for a stranger to the rule";
  desk.dispatch();
  desk.complete(1000);
  desk.advance(seconds(1));
  ASSERT_TRUE(desk.come(1001, "anna", {.max_tokens = 1},
                        static_cast<std::uint64_t>(*refused.ticket)));
  desk.dispatch();
  desk.complete(1001);

  refused = drain();
  desk.advance(*refused.retry_after);
  const auto newcomer = desk.come(1002, "bob");
  ASSERT_FALSE(newcomer) << "this one is kept for anna";
  EXPECT_GE(*newcomer.error().retry_after, milliseconds(700)) << "told to come after her";
  ASSERT_TRUE(desk.come(1003, "anna", {.max_tokens = 1},
                        static_cast<std::uint64_t>(*refused.ticket)));
  desk.dispatch();
  desk.complete(1003);

  // She stops coming: each ticket that is not used halves what is kept for her.
  for (int i = 0; i < 4; ++i) {
    refused = drain();
    desk.advance(seconds(30));
  }
  refused = drain();
  desk.advance(*refused.retry_after);
  EXPECT_TRUE(desk.come(1004, "bob"));
}

// A client that asks without end never holds more than it may.
TEST(Ticket, BookIsBounded) {
  TicketDesk desk("queue_requests = 2");
  desk.fill();
  std::int64_t given = 1;
  for (std::uint64_t id = 100; id < 300; ++id) {
    const auto refused = desk.come(id, "anna");
    ASSERT_FALSE(refused);
    given += refused.error().ticket ? 1 : 0;
  }
  EXPECT_EQ(given, kMostTicketsOfKey);
  // Nobody came back in time: so many are not believed again.
  desk.advance(seconds(1000));
  given = 0;
  for (std::uint64_t id = 300; id < 500; ++id) {
    const auto refused = desk.come(id, "anna");
    ASSERT_FALSE(refused);
    given += refused.error().ticket ? 1 : 0;
  }
  EXPECT_EQ(given, kFewestTicketsOfKey);
}

// A key that is gone takes its tickets along; nothing points to it afterwards.
TEST(Ticket, OutlivesItsKey) {
  TicketDesk desk("queue_requests = 2");
  desk.fill();
  for (std::uint64_t id = 1; id <= 6; ++id) {
    if (id <= 4) desk.complete(id);
    desk.dispatch();
  }
  desk.complete(5);
  desk.complete(6);
  desk.admission.set_keys(desk.now, {key_of("bob", "red")});
  desk.check();
  desk.advance(seconds(100));
  ASSERT_TRUE(desk.come(50, "bob", 10));
  desk.check();
}

}  // namespace
}  // namespace turnstile::policy

#include "gateway/text_pool.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "tests/support/fake_text_workers.h"

namespace turnstile::gateway {
namespace {

class NamedTask final : public TextTask {
 public:
  NamedTask(std::string name, std::vector<std::string>& done)
      : name_(std::move(name)), done_(done) {}
  void run() override {
    if (name_ == "broken") throw std::runtime_error("planted");
    done_.push_back(name_);
  }

 private:
  std::string name_;
  std::vector<std::string>& done_;
};

class TextPoolTest : public testing::Test {
 protected:
  ~TextPoolTest() override { EXPECT_EQ(pool.check_invariants(), std::nullopt); }

  std::unique_ptr<TextTicket> start(std::string name, std::size_t class_index = 1,
                                    std::string_view team = "lab") {
    auto ticket = std::make_unique<TextTicket>(pool, mailbox);
    const bool has_room =
        ticket->try_start(class_index, team, std::make_unique<NamedTask>(std::move(name), done));
    EXPECT_EQ(pool.check_invariants(), std::nullopt);
    return has_room ? std::move(ticket) : nullptr;
  }
  void work() {
    while (workers.step()) pool.take_done();
  }

  boost::asio::io_context io{1};
  Mailbox mailbox{io.get_executor()};
  tests::FakeTextWorkers workers{1};
  TextPool pool{workers};
  std::vector<std::string> done;
};

TEST_F(TextPoolTest, ATicketIsToldWhenItsTaskIsDone) {
  const auto ticket = start("a");
  EXPECT_FALSE(ticket->is_done());
  EXPECT_TRUE(mailbox.empty());
  workers.step();
  EXPECT_FALSE(ticket->is_done()) << "only the turn's end tells";
  pool.take_done();
  ASSERT_TRUE(ticket->is_done());
  EXPECT_EQ(mailbox.try_next(), EventKind::TextDone);
  EXPECT_NE(ticket->take(), nullptr);
}

// The first of each class is at the worker or was first; behind it classes are strict.
TEST_F(TextPoolTest, HigherClassesGoFirst) {
  const auto running = start("running", 3);
  const auto batch = start("batch", 3);
  const auto demo = start("demo", 0);
  const auto standard = start("standard", 2);
  work();
  EXPECT_EQ(done, (std::vector<std::string>{"running", "demo", "standard", "batch"}));
}

TEST_F(TextPoolTest, ATeamWithManyTextsWaitsBehindItself) {
  std::vector<std::unique_ptr<TextTicket>> tickets;
  for (const char* name : {"a1", "a2", "a3", "a4"}) tickets.push_back(start(name, 1, "a"));
  for (const char* name : {"b1", "b2"}) tickets.push_back(start(name, 1, "b"));
  work();
  EXPECT_EQ(done, (std::vector<std::string>{"a1", "b1", "a2", "b2", "a3", "a4"}));
}

TEST_F(TextPoolTest, NobodyTakesMoreThanItsRoom) {
  std::vector<std::unique_ptr<TextTicket>> tickets;
  for (std::size_t i = 0; i < TextPool::kMaxTasksOfTeam; ++i) tickets.push_back(start("a", 1, "a"));
  EXPECT_EQ(start("a", 1, "a"), nullptr) << "a team";
  while (pool.waiting() < TextPool::kMaxTasks) {
    tickets.push_back(start("b", 1, std::to_string(tickets.size())));
  }
  EXPECT_EQ(start("c", 1, "c"), nullptr) << "all together";
  tickets.front().reset();
  tickets.back().reset();
  EXPECT_NE(start("a", 1, "a"), nullptr) << "what is let go makes room";
}

TEST_F(TextPoolTest, WhatIsLetGoIsNotDoneOrIsDoneForNobody) {
  auto running = start("running");
  auto waiting = start("waiting");
  waiting.reset();
  EXPECT_EQ(pool.waiting(), 0U);
  running.reset();
  EXPECT_EQ(pool.running(), 1U) << "the worker has it";
  const auto next = start("next");
  EXPECT_EQ(pool.waiting(), 1U) << "so it is not idle";
  work();
  EXPECT_EQ(done, (std::vector<std::string>{"running", "next"}));
  EXPECT_EQ(pool.running(), 0U);
  EXPECT_EQ(mailbox.try_next(), EventKind::TextDone);
  EXPECT_TRUE(mailbox.empty());
}

TEST_F(TextPoolTest, ADoneTicketThatGoesTakesItsEventAlong) {
  auto ticket = start("a");
  work();
  ticket.reset();
  EXPECT_TRUE(mailbox.empty());
}

TEST_F(TextPoolTest, WhatATaskThrowsComesOutAtItsTicket) {
  const auto ticket = start("broken");
  work();
  ASSERT_TRUE(ticket->is_done());
  EXPECT_THROW(ticket->take(), std::runtime_error);
}

}  // namespace
}  // namespace turnstile::gateway

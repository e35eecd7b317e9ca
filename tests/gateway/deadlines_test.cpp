#include "gateway/deadlines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "gateway/ids.h"

namespace turnstile::gateway {
namespace {

policy::Instant at(int ms) { return policy::Instant{} + std::chrono::milliseconds(ms); }

struct Sleeper {
  explicit Sleeper(boost::asio::io_context& io, Deadlines& queue)
      : mailbox(io.get_executor()), deadline(queue, mailbox) {}
  bool was_told() { return mailbox.try_next() == EventKind::Deadline; }
  Mailbox mailbox;
  Deadline deadline;
};

TEST(Deadlines, FiresWhatIsDueAndNothingElse) {
  boost::asio::io_context io;
  Deadlines queue;
  Sleeper early(io, queue);
  Sleeper late(io, queue);
  late.deadline.set(at(20));
  early.deadline.set(at(10));
  EXPECT_EQ(queue.next(), at(10));
  queue.fire_due(at(9));
  EXPECT_FALSE(early.was_told());
  queue.fire_due(at(10));
  EXPECT_TRUE(early.was_told());
  EXPECT_FALSE(late.was_told());
  EXPECT_EQ(queue.next(), at(20));
}

// A deadline that was moved must not be heard of at its old time, even when the event was on its
// way.
TEST(Deadlines, AMovedDeadlineForgetsTheOldTime) {
  boost::asio::io_context io;
  Deadlines queue;
  Sleeper sleeper(io, queue);
  sleeper.deadline.set(at(10));
  queue.fire_due(at(10));
  sleeper.deadline.set(at(30));
  EXPECT_FALSE(sleeper.was_told());
  sleeper.deadline.clear();
  queue.fire_due(at(40));
  EXPECT_FALSE(sleeper.was_told());
  EXPECT_EQ(queue.next(), std::nullopt);
}

TEST(Deadlines, AgreesWithASortedList) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SeededRandom random(seed);
    boost::asio::io_context io;
    Deadlines queue;
    std::vector<std::unique_ptr<Sleeper>> sleepers;
    for (int i = 0; i < 20; ++i) sleepers.push_back(std::make_unique<Sleeper>(io, queue));
    int now = 0;
    for (int move = 0; move < 300; ++move) {
      Sleeper& sleeper = *sleepers[random.next() % sleepers.size()];
      switch (random.next() % 4) {
        case 0:
        case 1: sleeper.deadline.set(at(now + static_cast<int>(random.next() % 50))); break;
        case 2: sleeper.deadline.clear(); break;
        default: now += static_cast<int>(random.next() % 20);
      }
      std::optional<policy::Instant> earliest;
      std::size_t set = 0;
      for (const auto& each : sleepers) {
        if (!each->deadline.is_set()) continue;
        ++set;
        if (!earliest || each->deadline.at() < *earliest) earliest = each->deadline.at();
      }
      ASSERT_EQ(queue.next(), earliest) << "seed " << seed;
      ASSERT_EQ(queue.size(), set);
      std::vector<bool> due;
      for (const auto& each : sleepers) {
        due.push_back(each->deadline.is_set() && each->deadline.at() <= at(now));
      }
      queue.fire_due(at(now));
      for (std::size_t i = 0; i < sleepers.size(); ++i) {
        ASSERT_EQ(sleepers[i]->was_told(), due[i]) << "seed " << seed;
      }
    }
  }
}

TEST(Mailbox, KeepsTheOrderAndEachKindOnce) {
  boost::asio::io_context io;
  Mailbox mailbox(io.get_executor());
  mailbox.put(EventKind::Progress);
  mailbox.put(EventKind::Readable);
  mailbox.put(EventKind::Progress);
  EXPECT_EQ(mailbox.try_next(), EventKind::Progress);
  EXPECT_EQ(mailbox.try_next(), EventKind::Readable);
  EXPECT_EQ(mailbox.try_next(), std::nullopt);
}

}  // namespace
}  // namespace turnstile::gateway

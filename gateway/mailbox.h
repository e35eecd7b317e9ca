// mailbox.h: where one connection's coroutine waits, and the only thing it ever waits for.
//
//   connection: Readable, Writable ----+
//   deadlines:  Deadline --------------+--> [ kinds, in order of arrival ] --> co_await next()
//   admission:  Dispatched, Refused ---+
//   engine:     Progress, EngineFault -+
//   keys, drain: KeyRevoked, Shutdown -+
//   text pool:   TextDone -------------+
//
// A mailbox carries kinds, not data: what arrived lies with its owner (bytes in the connection,
// text in the token stream, the refusal in the live request). So each kind needs to be pending once
// only, the mailbox is as large as the enum, and a flood of tokens wakes the coroutine once a turn.
// The first terminal event wins because kinds come out in the order in which they went in.
//
// Thread:    I/O.
// Lifetime:  owned by the session, which outlives its coroutine's waiting.
// Errors:    none. A kind that is pending already is not stored again.
// Cost:      O(1); put() to a waiting coroutine posts it to the io_context, so that it runs after
//            the caller has finished and never inside it.
// Why not awaitable operators (||): they cancel the loser, and a cancelled read or timer that had
// already completed is an event lost.
// Tests:     tests/gateway/deadlines_test.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace turnstile::gateway {

// The coroutine type of connections and of the spine. `Executor` is the concrete one: a type-erased
// executor would cost an allocation at each wake-up.
//
// In a coroutine `co_await` is a statement of its own or the initializer of a variable, never part
// of a condition: GCC 12 resumes a finished frame after `while (co_await f())`.
using IoExecutor = boost::asio::io_context::executor_type;
template <typename T>
using Awaitable = boost::asio::awaitable<T, IoExecutor>;

enum class EventKind : std::uint8_t {
  Readable,     // Connection::read_some() may give bytes, or tell that the client is gone
  Writable,     // Connection::write_some() may take more
  Deadline,     // the session's deadline has passed
  Dispatched,   // admission gave a permit
  Refused,      // admission refused after queueing
  Progress,     // the engine has reported something about the request
  KeyRevoked,   // the key was revoked together with what it runs
  Shutdown,     // the server ends now: finish with an error event
  EngineFault,  // the engine is gone
  TextDone,     // the text pool has done the task of a ticket
};
inline constexpr std::size_t kEventKinds = 10;

class Mailbox {
 public:
  explicit Mailbox(IoExecutor executor) : executor_(executor) {}
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  void put(EventKind kind);

  // The oldest pending kind. One waiter at a time.
  Awaitable<EventKind> next();

  // Takes the oldest kind if there is one; never waits.
  std::optional<EventKind> try_next();

  // Forgets a pending kind: a deadline that was moved, the outcome of a request that has ended.
  void discard(EventKind kind);

  bool empty() const { return count_ == 0; }

 private:
  using Handler = boost::asio::async_result<boost::asio::use_awaitable_t<IoExecutor>,
                                            void()>::handler_type;
  auto parked();

  IoExecutor executor_;
  std::array<EventKind, kEventKinds> pending_{};  // the first count_, oldest first
  std::size_t count_ = 0;
  std::optional<Handler> waiter_;
};

}  // namespace turnstile::gateway

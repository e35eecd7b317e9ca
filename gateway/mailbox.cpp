#include "gateway/mailbox.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include <boost/asio/post.hpp>

namespace turnstile::gateway {

namespace asio = boost::asio;

void Mailbox::put(EventKind kind) {
  const auto end = pending_.begin() + count_;
  if (std::find(pending_.begin(), end, kind) != end) return;
  pending_[count_++] = kind;
  if (!waiter_) return;
  Handler waiter = std::move(*waiter_);
  waiter_.reset();
  asio::post(executor_, std::move(waiter));
}

std::optional<EventKind> Mailbox::try_next() {
  if (count_ == 0) return std::nullopt;
  const EventKind oldest = pending_[0];
  std::move(pending_.begin() + 1, pending_.begin() + count_, pending_.begin());
  --count_;
  return oldest;
}

void Mailbox::discard(EventKind kind) {
  const auto end = pending_.begin() + count_;
  const auto kept = std::remove(pending_.begin(), end, kind);
  count_ = static_cast<std::size_t>(kept - pending_.begin());
}

// Parks the calling coroutine until put(). A function of its own: GCC 12 destroys a temporary
// lambda twice when it stands inside a co_await expression.
auto Mailbox::parked() {
  return asio::async_initiate<const asio::use_awaitable_t<IoExecutor>, void()>(
      [this](auto handler) {
        assert(!waiter_ && "one coroutine waits at a mailbox");
        waiter_.emplace(std::move(handler));
      },
      asio::use_awaitable_t<IoExecutor>{});
}

Awaitable<EventKind> Mailbox::next() {
  while (count_ == 0) co_await parked();
  co_return *try_next();
}

}  // namespace turnstile::gateway

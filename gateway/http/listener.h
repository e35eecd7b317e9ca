// listener.h: a listening socket and the connections that come out of it.
//
// When the system has no descriptor or memory left for a connection, the listener rests for
// accept_error_wait instead of spinning; resume_at() says until when, and tick() goes on.
//
// Thread: I/O. Errors: opening fails with one sentence that names address and remedy.
// Tests:  tests/e2e (real sockets, a port that is taken).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <tl/expected.hpp>

#include "gateway/clock.h"
#include "gateway/config/limits_config.h"
#include "gateway/config/listen_address.h"
#include "gateway/http/connection.h"
#include "gateway/event_loop.h"

namespace turnstile::gateway {

class Listener final : private FdEvents {
 public:
  // `setting` is how the operator calls the address, "listen" or "admin_listen".
  static tl::expected<std::unique_ptr<Listener>, std::string> open(EventLoop& loop,
                                                                   const ListenAddress& address,
                                                                   std::string_view setting);
  // What is wrong with an address before anybody listens: a path where no socket can be made.
  static tl::expected<void, std::string> check(const ListenAddress& address,
                                               std::string_view setting);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // The address with the port that was taken.
  const ListenAddress& address() const { return address_; }

  // Called with a connected, non-blocking socket that the callee owns.
  using OnAccept = std::function<void(int fd, PeerAddress peer)>;
  void start(const Clock& clock, const LimitsConfig& limits, OnAccept on_accept);

  // No further connection is taken; those in the backlog are refused.
  void stop();

  std::optional<policy::Instant> resume_at() const { return resume_at_; }
  void tick(policy::Instant now);

 private:
  Listener(EventLoop& loop, int fd, ListenAddress address);
  void on_fd_readable(bool is_end) override;

  std::optional<FdWatch> watch_;  // empty once stopped
  ListenAddress address_;
  const Clock* clock_ = nullptr;
  const LimitsConfig* limits_ = nullptr;
  OnAccept on_accept_;
  std::optional<policy::Instant> resume_at_;
};

}  // namespace turnstile::gateway

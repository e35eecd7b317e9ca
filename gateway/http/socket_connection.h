// socket_connection.h: a Connection over a TCP or unix-domain socket.
//
// Thread: I/O. Each call is at most one system call, and none when the last one has left nothing to
//         read and the kernel has told of nothing new since.
// Tests:  tests/gateway/connection_test.cpp over socket pairs.
#pragma once

#include <optional>

#include "gateway/http/connection.h"
#include "gateway/event_loop.h"

namespace turnstile::gateway {

class SocketConnection final : public Connection, private FdEvents {
 public:
  // Takes over the connected, non-blocking socket `fd`.
  SocketConnection(EventLoop& loop, int fd, PeerAddress peer);

  void start(ConnectionSink& sink) override;
  bool is_open() const override { return true; }
  Transfer read_some(std::span<char> into) override;
  Transfer write_some(std::string_view bytes) override;
  void shut_down_write() override;
  void close() override;
  const PeerAddress& peer() const override { return peer_; }

 private:
  void on_fd_readable(bool is_end) override;
  void on_fd_writable() override;

  std::optional<FdWatch> watch_;  // empty once closed
  PeerAddress peer_;
  ConnectionSink* sink_ = nullptr;
  bool may_read_ = true;     // a read may give something
  bool peer_ended_ = false;  // so the kernel says; every read gives something until the last
  bool waits_writable_ = false;
};

}  // namespace turnstile::gateway

// memory_connection.h: a Connection whose other end is in the test.
//
//   session <-> MemoryConnection <-> MemoryClient (the test)
//
// The client sends bytes, reads what came, stops reading (a window), closes its side, or resets. No
// socket, no time: an event reaches the session's sink inside the call that causes it, and the sink
// puts it into a mailbox.
//
// tests/gateway/connection_test.cpp holds it to the same contract as the socket.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "gateway/http/connection.h"

namespace turnstile::tests {

struct MemoryLink {
  std::string to_server;
  std::string to_client;
  std::size_t window = std::numeric_limits<std::size_t>::max();  // bytes to_client may hold
  bool client_has_closed = false;   // FIN: what was sent before it is still readable
  bool is_reset = false;            // nothing is readable any more
  bool server_has_ended = false;    // shut_down_write() or close()
  bool server_has_closed = false;   // close()
  gateway::ConnectionSink* sink = nullptr;
  bool wants_readable = false;
  bool wants_writable = false;
};

class MemoryConnection final : public gateway::Connection {
 public:
  MemoryConnection(std::shared_ptr<MemoryLink> link, gateway::PeerAddress peer)
      : link_(std::move(link)), peer_(std::move(peer)) {}
  ~MemoryConnection() override { close(); }

  void start(gateway::ConnectionSink& sink) override;
  bool is_open() const override { return true; }
  gateway::Transfer read_some(std::span<char> into) override;
  gateway::Transfer write_some(std::string_view bytes) override;
  void shut_down_write() override { link_->server_has_ended = true; }
  void close() override;
  const gateway::PeerAddress& peer() const override { return peer_; }

 private:
  std::shared_ptr<MemoryLink> link_;
  gateway::PeerAddress peer_;
};

class MemoryClient {
 public:
  MemoryClient() : link_(std::make_shared<MemoryLink>()) {}

  // Once: the server's end.
  std::unique_ptr<MemoryConnection> connect(
      gateway::PeerAddress peer = {"192.0.2.7", false}) const {
    return std::make_unique<MemoryConnection>(link_, std::move(peer));
  }

  void send(std::string_view bytes);
  // Everything that came since the last take().
  std::string take();
  const std::string& received() const { return link_->to_client; }
  // How many bytes the server may have on the way; 0 stops it.
  void set_window(std::size_t bytes);
  void close();  // FIN
  void reset();  // RST
  bool server_has_ended() const { return link_->server_has_ended; }
  bool server_has_closed() const { return link_->server_has_closed; }

 private:
  void tell_readable();
  void tell_writable();

  std::shared_ptr<MemoryLink> link_;
};

}  // namespace turnstile::tests

// connection.h: a stream of bytes to one client, as a session sees it.
//
//   session --write_some()--> [ Connection ] <--> client
//           <--read_some()---
//   ConnectionSink::on_readable/on_writable: try again
//
// Nothing here waits. A call does what can be done now; when that was less than asked, the sink is
// told once when more may work. A call to the sink is a hint: it may come although nothing changed.
//
// Three implementations: SocketConnection (socket_connection.h), TlsConnection over any other
// connection (tls_connection.h), MemoryConnection (tests/support/memory_connection.h).
//
// Contract (tests/gateway/connection_test.cpp runs the same table against all three):
//   1. The client's end (FIN, reset, close_notify, error) is told through on_readable() and then by
//      read_some() with `closed`, in every phase and also when nothing is being read or written,
//      as long as the session has read everything before it.
//   2. Bytes come out in order and are never repeated.
//   3. After close() neither the sink nor the peer hears anything more.
//
// Thread: I/O.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace turnstile::gateway {

class ConnectionSink {
 public:
  virtual void on_readable() = 0;
  virtual void on_writable() = 0;

 protected:
  ~ConnectionSink() = default;
};

struct Transfer {
  std::size_t bytes = 0;
  bool closed = false;  // the client is gone; final
};

struct PeerAddress {
  std::string text;  // without port; "unix" for a unix socket
  bool is_loopback = false;
};

class Connection {
 public:
  virtual ~Connection() = default;

  // Begins to listen for bytes (and the TLS handshake). Called once; the sink outlives the
  // connection or its close().
  virtual void start(ConnectionSink& sink) = 0;

  // False while a handshake is under way. read_some() drives it on and tells when it failed.
  virtual bool is_open() const = 0;

  // Up to into.size() bytes. Fewer than that: on_readable() will be called.
  virtual Transfer read_some(std::span<char> into) = 0;

  // As many of the bytes as the way to the client has room for. Fewer than all: on_writable() will
  // be called.
  virtual Transfer write_some(std::string_view bytes) = 0;

  // No more bytes will be written; the client sees the end of the stream after all that was.
  virtual void shut_down_write() = 0;

  // Ends both directions at once.
  virtual void close() = 0;

  virtual const PeerAddress& peer() const = 0;
};

}  // namespace turnstile::gateway

// client_socket.h: one non-blocking TCP connection to the server under test.
#pragma once

#include <netdb.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace turnstile::load {

// Resolved once, before the run.
class ServerAddress {
 public:
  // Nothing when the name does not resolve.
  static std::optional<ServerAddress> resolve(const std::string& host, const std::string& port);
  const addrinfo& first() const { return *list_; }

 private:
  struct Free {
    void operator()(addrinfo* list) const { freeaddrinfo(list); }
  };
  explicit ServerAddress(addrinfo* list) : list_(list) {}
  std::unique_ptr<addrinfo, Free> list_;
};

enum class IoResult { Ok, WouldBlock, Closed };

// Owns the descriptor. Errors of the connection, of any kind, are Closed.
class ClientSocket {
 public:
  ClientSocket() = default;
  ~ClientSocket() { close(); }
  ClientSocket(const ClientSocket&) = delete;
  ClientSocket& operator=(const ClientSocket&) = delete;

  // Starts to connect; false when that failed at once.
  bool open(const ServerAddress& address);
  void close();
  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }

  // Sends from the front of `bytes` and removes what was taken.
  IoResult send(std::string_view& bytes);
  // Ok: `received` bytes are in `buffer`.
  IoResult receive(char* buffer, std::size_t capacity, std::size_t& received);

 private:
  int descriptor_ = -1;
};

}  // namespace turnstile::load

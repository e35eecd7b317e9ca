#include "bench/load/client_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace turnstile::load {
namespace {

IoResult result_of_error() {
  // A connection that is still being made says ENOTCONN or EAGAIN.
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOTCONN
             ? IoResult::WouldBlock
             : IoResult::Closed;
}

}  // namespace

std::optional<ServerAddress> ServerAddress::resolve(const std::string& host,
                                                    const std::string& port) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (getaddrinfo(host.c_str(), port.c_str(), &wanted, &list) != 0) return std::nullopt;
  return ServerAddress(list);
}

bool ClientSocket::open(const ServerAddress& address) {
  close();
  const addrinfo& to = address.first();
  descriptor_ = ::socket(to.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor_ < 0) return false;
  const int on = 1;
  ::setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(descriptor_, to.ai_addr, to.ai_addrlen) == 0 || errno == EINPROGRESS) return true;
  close();
  return false;
}

void ClientSocket::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

IoResult ClientSocket::send(std::string_view& bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0) return result_of_error();
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return IoResult::Ok;
}

IoResult ClientSocket::receive(char* buffer, std::size_t capacity, std::size_t& received) {
  const ssize_t count = ::recv(descriptor_, buffer, capacity, 0);
  if (count < 0) return result_of_error();
  if (count == 0) return IoResult::Closed;
  received = static_cast<std::size_t>(count);
  return IoResult::Ok;
}

}  // namespace turnstile::load

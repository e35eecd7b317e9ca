#include "gateway/http/socket_connection.h"

#include <cassert>
#include <cerrno>
#include <utility>

#include <sys/socket.h>

namespace turnstile::gateway {
namespace {

bool is_later(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

template <typename Call>
ssize_t uninterrupted(const Call& call) {
  ssize_t count = 0;
  do count = call();
  while (count < 0 && errno == EINTR);
  return count;
}

}  // namespace

SocketConnection::SocketConnection(EventLoop& loop, int fd, PeerAddress peer)
    : watch_(std::in_place, loop, fd, FdWatch::Ownership::Owned, static_cast<FdEvents&>(*this)),
      peer_(std::move(peer)) {}

void SocketConnection::start(ConnectionSink& sink) { sink_ = &sink; }

Transfer SocketConnection::read_some(std::span<char> into) {
  assert(!into.empty() && "a read without room cannot tell data from the end");
  if (!watch_) return {.bytes = 0, .closed = true};
  if (!may_read_) return {.bytes = 0, .closed = false};
  const ssize_t count =
      uninterrupted([&] { return ::recv(watch_->fd(), into.data(), into.size(), 0); });
  if (count == 0 || (count < 0 && !is_later(errno))) return {.bytes = 0, .closed = true};
  const auto bytes = count < 0 ? std::size_t{0} : static_cast<std::size_t>(count);
  // Less than there was room for: the socket is empty, and what comes later is told. But an end
  // that was there already has been told, and is not told again.
  may_read_ = bytes == into.size() || peer_ended_;
  return {.bytes = bytes, .closed = false};
}

Transfer SocketConnection::write_some(std::string_view bytes) {
  if (!watch_) return {.bytes = 0, .closed = true};
  const ssize_t count = uninterrupted(
      [&] { return ::send(watch_->fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL); });
  if (count < 0 && !is_later(errno)) return {.bytes = 0, .closed = true};
  const auto sent = count < 0 ? std::size_t{0} : static_cast<std::size_t>(count);
  waits_writable_ = sent < bytes.size();
  if (waits_writable_) watch_->watch_writable();
  return {.bytes = sent, .closed = false};
}

void SocketConnection::shut_down_write() {
  if (watch_) ::shutdown(watch_->fd(), SHUT_WR);
}

void SocketConnection::close() { watch_.reset(); }

void SocketConnection::on_fd_readable(bool is_end) {
  may_read_ = true;
  peer_ended_ |= is_end;
  if (sink_ != nullptr) sink_->on_readable();
}

void SocketConnection::on_fd_writable() {
  if (std::exchange(waits_writable_, false)) sink_->on_writable();
}

}  // namespace turnstile::gateway

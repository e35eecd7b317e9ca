#include "gateway/socket_connection.h"

#include <cassert>
#include <cerrno>
#include <utility>

#include <sys/socket.h>

namespace turnstile::gateway {
namespace {

bool is_later(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

SocketConnection::SocketConnection(boost::asio::io_context& context, int fd, PeerAddress peer)
    : watch_(std::in_place, context, fd, FdWatch::Ownership::Owned,
             static_cast<FdEvents&>(*this)),
      peer_(std::move(peer)) {}

void SocketConnection::start(ConnectionSink& sink) {
  sink_ = &sink;
  watch_->wait_readable();
}

Transfer SocketConnection::read_some(std::span<char> into) {
  assert(!into.empty() && "a read without room cannot tell data from the end");
  if (!watch_) return {.bytes = 0, .closed = true};
  const ssize_t count = ::recv(watch_->fd(), into.data(), into.size(), 0);
  if (count == 0 || (count < 0 && !is_later(errno))) return {.bytes = 0, .closed = true};
  const auto bytes = count < 0 ? std::size_t{0} : static_cast<std::size_t>(count);
  if (bytes < into.size()) watch_->wait_readable();
  return {.bytes = bytes, .closed = false};
}

Transfer SocketConnection::write_some(std::string_view bytes) {
  if (!watch_) return {.bytes = 0, .closed = true};
  const ssize_t count = ::send(watch_->fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (count < 0 && !is_later(errno)) return {.bytes = 0, .closed = true};
  const auto sent = count < 0 ? std::size_t{0} : static_cast<std::size_t>(count);
  if (sent < bytes.size()) watch_->wait_writable();
  return {.bytes = sent, .closed = false};
}

void SocketConnection::shut_down_write() {
  if (watch_) ::shutdown(watch_->fd(), SHUT_WR);
}

void SocketConnection::close() { watch_.reset(); }

void SocketConnection::on_fd_readable() { sink_->on_readable(); }
void SocketConnection::on_fd_writable() { sink_->on_writable(); }

}  // namespace turnstile::gateway

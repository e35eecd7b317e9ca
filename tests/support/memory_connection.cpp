#include "tests/support/memory_connection.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace turnstile::tests {

void MemoryConnection::start(gateway::ConnectionSink& sink) {
  link_->sink = &sink;
  link_->wants_readable = true;
  if (!link_->to_server.empty() || link_->client_has_closed || link_->is_reset) {
    link_->wants_readable = false;
    sink.on_readable();
  }
}

gateway::Transfer MemoryConnection::read_some(std::span<char> into) {
  if (link_->server_has_closed || link_->is_reset) return {.bytes = 0, .closed = true};
  const std::size_t bytes = std::min(into.size(), link_->to_server.size());
  std::memcpy(into.data(), link_->to_server.data(), bytes);
  link_->to_server.erase(0, bytes);
  if (bytes == 0 && link_->client_has_closed) return {.bytes = 0, .closed = true};
  if (bytes < into.size()) {
    link_->wants_readable = true;
    if (link_->client_has_closed) {
      link_->wants_readable = false;
      link_->sink->on_readable();
    }
  }
  return {.bytes = bytes, .closed = false};
}

gateway::Transfer MemoryConnection::write_some(std::string_view bytes) {
  if (link_->server_has_closed || link_->is_reset) return {.bytes = 0, .closed = true};
  const std::size_t held = link_->to_client.size();
  const std::size_t room = link_->window > held ? link_->window - held : 0;
  const std::size_t taken = std::min(bytes.size(), room);
  link_->to_client += bytes.substr(0, taken);
  if (taken < bytes.size()) link_->wants_writable = true;
  return {.bytes = taken, .closed = false};
}

void MemoryConnection::close() {
  link_->server_has_ended = true;
  link_->server_has_closed = true;
  link_->sink = nullptr;
}

void MemoryClient::send(std::string_view bytes) {
  if (link_->server_has_closed) return;
  link_->to_server += bytes;
  tell_readable();
}

std::string MemoryClient::take() {
  std::string bytes = std::exchange(link_->to_client, {});
  if (!bytes.empty()) tell_writable();
  return bytes;
}

void MemoryClient::set_window(std::size_t bytes) {
  const bool opens = bytes > link_->window;
  link_->window = bytes;
  if (opens) tell_writable();
}

void MemoryClient::close() {
  link_->client_has_closed = true;
  tell_readable();
}

void MemoryClient::reset() {
  link_->is_reset = true;
  link_->to_server.clear();
  tell_readable();
  tell_writable();
}

void MemoryClient::tell_readable() {
  if (link_->sink == nullptr || !std::exchange(link_->wants_readable, false)) return;
  link_->sink->on_readable();
}

void MemoryClient::tell_writable() {
  if (link_->sink == nullptr || !std::exchange(link_->wants_writable, false)) return;
  link_->sink->on_writable();
}

}  // namespace turnstile::tests

#include "gateway/session_set.h"

#include <exception>
#include <utility>

#include <boost/asio/co_spawn.hpp>

#include "gateway/log.h"

namespace turnstile::gateway {

void SessionSet::adopt(std::unique_ptr<Connection> connection, ListenerKind listener,
                       std::function<void()> on_end) {
  auto owned = std::make_unique<Session>(context_, std::move(connection), listener);
  Session* session = owned.get();
  sessions_.emplace(session, std::move(owned));
  boost::asio::co_spawn(
      context_.executor, session->run(),
      [this, session, ended = std::move(on_end)](std::exception_ptr failure) {
        if (failure) log_error("A connection ended with a failure of the server.");
        sessions_.erase(session);
        if (ended) ended();
      });
}

void SessionSet::drop_oldest_handshake() {
  Session* oldest = nullptr;
  for (const auto& [key, session] : sessions_) {
    const auto began = session->handshake_began();
    if (!began || session->is_gone()) continue;
    if (oldest == nullptr || *began < *oldest->handshake_began()) oldest = session.get();
  }
  if (oldest == nullptr) return;
  oldest->hang_up();
  oldest->shut_down();
}

void SessionSet::abandon_all() {
  context_.live.fail_all();
  for (const auto& [key, session] : sessions_) {
    session->hang_up();
    session->shut_down();
  }
}

void SessionSet::shut_down_all() {
  for (const auto& [key, session] : sessions_) session->shut_down();
}

}  // namespace turnstile::gateway

#include "gateway/server.h"

#include <chrono>
#include <csignal>
#include <exception>
#include <utility>

#include "gateway/log.h"
#include "gateway/http/socket_connection.h"
#include "gateway/spine_turn.h"

namespace turnstile::gateway {
namespace {

// A changed key file is read at the second look, and a revoked key refused within a second.
constexpr policy::Duration kLookPeriod = std::chrono::milliseconds(500);

}  // namespace

// Nothing but a reason for a turn: end_turn() takes what there is.
class Server::ThreadWatch final : private FdEvents {
 public:
  ThreadWatch(EventLoop& loop, int fd, std::function<void()> clear)
      : clear_(std::move(clear)),
        watch_(loop, fd, FdWatch::Ownership::Borrowed, static_cast<FdEvents&>(*this)) {}

 private:
  void on_fd_readable(bool) override { clear_(); }

  std::function<void()> clear_;
  FdWatch watch_;
};

Server::Server(EventLoop& loop, SpineContext& context, Listeners listeners, TlsContext* tls,
               std::function<void()> look_at_files)
    : loop_(loop),
      context_(context),
      listeners_(std::move(listeners)),
      tls_(tls),
      look_at_files_(std::move(look_at_files)),
      sessions_(context) {}

Server::~Server() = default;

void Server::watch(int ready_fd, std::function<void()> clear) {
  watches_.push_back(std::make_unique<ThreadWatch>(loop_, ready_fd, std::move(clear)));
}

void Server::on_signal(int number) {
  if (number == SIGHUP) {
    log_info("SIGHUP: reloading the policy is not part of this version; nothing was changed");
    return;
  }
  if (std::exchange(was_signalled_, true)) {
    log_info("second signal: ending at once");
    context_.drain.end_now();
    return;
  }
  log_info("draining: new requests are refused after drain_delay, a second signal ends at once");
  context_.drain.begin(context_.clock.now());
}

void Server::run() {
  for (const ListenerKind kind : {ListenerKind::Public, ListenerKind::Admin}) {
    Listener& listener =
        kind == ListenerKind::Public ? *listeners_.open_to_all : *listeners_.admin;
    listener.start(context_.clock, context_.limits, [this, kind](int fd, PeerAddress peer) {
      accept(fd, std::move(peer), kind);
    });
  }
  next_look_ = context_.clock.now() + kLookPeriod;
  loop_.run([this] { end_of_turn(); });
  sessions_.abandon_all();
  while (sessions_.size() > 0) loop_.context().poll();
}

bool Server::has_room(const PeerAddress& peer, ListenerKind kind) const {
  if (kind == ListenerKind::Admin && peer.is_loopback) return true;  // the operator's own
  const LimitsConfig& limits = context_.limits;
  if (limits.max_connections > 0 && context_.open_connections >= limits.max_connections) {
    return false;
  }
  if (limits.max_connections_per_address == 0 || peer.is_loopback) return true;
  const auto found = connections_by_address_.find(peer.text);
  return found == connections_by_address_.end() ||
         found->second < limits.max_connections_per_address;
}

void Server::accept(int fd, PeerAddress peer, ListenerKind kind) {
  std::unique_ptr<Connection> connection;
  const std::string address = peer.is_loopback ? std::string() : peer.text;
  const bool is_welcome = has_room(peer, kind);
  try {
    connection = std::make_unique<SocketConnection>(loop_, fd, std::move(peer));
    if (!is_welcome) {
      connection->close();
      context_.metrics.on_connection_refused();
      return;
    }
    if (tls_ != nullptr && kind == ListenerKind::Public) {
      if (context_.handshakes >= context_.limits.max_handshakes) sessions_.drop_oldest_handshake();
      connection = tls_->wrap(std::move(connection));
    }
  } catch (const std::exception& error) {
    log_warning(std::string("cannot take a connection: ") + error.what());
    context_.metrics.on_connection_refused();
    return;
  }
  if (address.empty()) return sessions_.adopt(std::move(connection), kind);
  ++connections_by_address_[address];
  sessions_.adopt(std::move(connection), kind, [this, address] {
    const auto found = connections_by_address_.find(address);
    if (--found->second == 0) connections_by_address_.erase(found);
  });
}

void Server::end_of_turn() {
  end_turn(context_);
  const policy::Instant now = context_.clock.now();
  look_around(now);
  if (context_.drain.phase() == ServePhase::Ending) end_sessions(now);

  std::optional<policy::Instant> wake = next_wake(context_);
  for (const auto& deadline : {next_look_, ends_at_, listeners_.open_to_all->resume_at(),
                               listeners_.admin->resume_at()}) {
    if (deadline && (!wake || *deadline < *wake)) wake = deadline;
  }
  if (wake) loop_.wake_at(*wake);
}

void Server::look_around(policy::Instant now) {
  listeners_.open_to_all->tick(now);
  listeners_.admin->tick(now);
  if (now < *next_look_) return;
  next_look_ = now + kLookPeriod;
  if (look_at_files_) look_at_files_();
}

void Server::end_sessions(policy::Instant now) {
  if (!ends_at_) {
    ends_at_ = now + kLastWords;
    listeners_.open_to_all->stop();
    listeners_.admin->stop();
    sessions_.shut_down_all();
  }
  if (sessions_.size() == 0 || now >= *ends_at_) loop_.stop();
}

}  // namespace turnstile::gateway

#include "gateway/http/listener.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "gateway/log.h"

namespace turnstile::gateway {
namespace {

constexpr int kBacklog = 1'024;
constexpr int kMaxAcceptsPerTurn = 64;

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

std::string failure(std::string_view setting, const ListenAddress& address, int error) {
  std::string text = "cannot listen on " + address.text() + ": " + std::strerror(error);
  if (error == EADDRINUSE && address.is_unix()) {
    struct stat status{};
    const bool is_socket =
        ::lstat(address.unix_path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
    return text + (is_socket ? "; another program listens there: stop that, or give "
                             : "; it is there and no socket: remove it, or give ") +
           std::string(setting) + " another path";
  }
  text += error == EADDRINUSE
              ? "; another program uses it: stop that, or give " + std::string(setting) +
                    " another port"
              : "; check " + std::string(setting);
  return text;
}

// A socket file that nobody listens on is left over from a process that was killed.
void remove_stale_socket(const sockaddr_un& name) {
  struct stat status{};
  if (::lstat(name.sun_path, &status) != 0 || !S_ISSOCK(status.st_mode)) return;
  const Socket probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto* address = reinterpret_cast<const sockaddr*>(&name);
  if (::connect(probe.fd(), address, sizeof name) != 0 && errno == ECONNREFUSED) {
    ::unlink(name.sun_path);
  }
}

tl::expected<int, int> listen_unix(const std::string& path) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (path.size() >= sizeof name.sun_path) return tl::unexpected(ENAMETOOLONG);
  std::memcpy(name.sun_path, path.c_str(), path.size() + 1);
  remove_stale_socket(name);
  Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const auto* address = reinterpret_cast<const sockaddr*>(&name);
  if (socket.fd() < 0 || ::bind(socket.fd(), address, sizeof name) != 0 ||
      ::listen(socket.fd(), kBacklog) != 0) {
    return tl::unexpected(errno);
  }
  return socket.release();
}

// On loopback a segment is as large as the small send buffer, and a receiver that got less than two
// segments waits 40 ms before it acknowledges them; nothing more is sent meanwhile. So a buffer
// holds several. Networks have smaller ones anyway.
void limit_segments(int listening, std::size_t send_buffer_bytes) {
  constexpr std::size_t kSegmentsOfBuffer = 8;
  constexpr std::size_t kSmallestSegmentBytes = 1'400;
  const int bytes =
      static_cast<int>(std::max(send_buffer_bytes / kSegmentsOfBuffer, kSmallestSegmentBytes));
  ::setsockopt(listening, IPPROTO_TCP, TCP_MAXSEG, &bytes, sizeof bytes);
}

tl::expected<int, int> listen_on(const addrinfo& info) {
  Socket socket(::socket(info.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.fd() < 0) return tl::unexpected(errno);
  const int yes = 1;
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(socket.fd(), info.ai_addr, info.ai_addrlen) != 0 ||
      ::listen(socket.fd(), kBacklog) != 0) {
    return tl::unexpected(errno);
  }
  return socket.release();
}

tl::expected<int, std::string> listen_tcp(const ListenAddress& address,
                                          std::string_view setting) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(address.port);
  const int code = ::getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found);
  if (code != 0) {
    return tl::unexpected("cannot listen on " + address.text() + ": " + ::gai_strerror(code) +
                          "; check " + std::string(setting));
  }
  int error = 0;
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    const auto fd = listen_on(*info);
    if (fd) {
      ::freeaddrinfo(found);
      return *fd;
    }
    error = fd.error();
  }
  ::freeaddrinfo(found);
  return tl::unexpected(failure(setting, address, error));
}

std::uint16_t port_of(const sockaddr_storage& name) {
  if (name.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6&>(name).sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in&>(name).sin_port);
}

PeerAddress peer_of(const sockaddr_storage& name) {
  char text[INET6_ADDRSTRLEN] = {};
  if (name.ss_family == AF_INET) {
    const in_addr& address = reinterpret_cast<const sockaddr_in&>(name).sin_addr;
    ::inet_ntop(AF_INET, &address, text, sizeof text);
    return {text, (ntohl(address.s_addr) >> 24) == 127};
  }
  if (name.ss_family != AF_INET6) return {"unix", true};
  const in6_addr& address = reinterpret_cast<const sockaddr_in6&>(name).sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    ::inet_ntop(AF_INET, address.s6_addr + 12, text, sizeof text);
    return {text, address.s6_addr[12] == 127};
  }
  ::inet_ntop(AF_INET6, &address, text, sizeof text);
  return {text, IN6_IS_ADDR_LOOPBACK(&address) != 0};
}

bool is_exhaustion(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

tl::expected<void, std::string> Listener::check(const ListenAddress& address,
                                                std::string_view setting) {
  if (!address.is_unix()) return {};
  const auto failed = [&](int error) { return tl::unexpected(failure(setting, address, error)); };
  const std::string folder = address.unix_path.parent_path().string();
  if (address.unix_path.string().size() >= sizeof sockaddr_un{}.sun_path) {
    return failed(ENAMETOOLONG);
  }
  if (::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0) return failed(errno);
  return {};
}

tl::expected<std::unique_ptr<Listener>, std::string> Listener::open(
    EventLoop& loop, const ListenAddress& address, std::string_view setting) {
  ListenAddress taken = address;
  int fd = -1;
  if (address.is_unix()) {
    const auto listening = listen_unix(address.unix_path.string());
    if (!listening) return tl::unexpected(failure(setting, address, listening.error()));
    fd = *listening;
  } else {
    const auto listening = listen_tcp(address, setting);
    if (!listening) return tl::unexpected(listening.error());
    fd = *listening;
    sockaddr_storage name{};
    socklen_t name_bytes = sizeof name;
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &name_bytes);
    taken.port = port_of(name);
  }
  return std::unique_ptr<Listener>(new Listener(loop, fd, std::move(taken)));
}

Listener::Listener(EventLoop& loop, int fd, ListenAddress address)
    : watch_(std::in_place, loop, fd, FdWatch::Ownership::Owned, static_cast<FdEvents&>(*this)),
      address_(std::move(address)) {}

Listener::~Listener() { stop(); }

void Listener::start(const Clock& clock, const LimitsConfig& limits, OnAccept on_accept) {
  clock_ = &clock;
  limits_ = &limits;
  on_accept_ = std::move(on_accept);
  if (!address_.is_unix()) limit_segments(watch_->fd(), limits.send_buffer_bytes);
  watch_->tell_again();
}

void Listener::stop() {
  if (!watch_) return;
  watch_.reset();
  resume_at_.reset();
  if (address_.is_unix()) ::unlink(address_.unix_path.c_str());
}

void Listener::tick(policy::Instant now) {
  if (!resume_at_ || now < *resume_at_) return;
  resume_at_.reset();
  if (watch_) watch_->tell_again();
}

void Listener::on_fd_readable(bool) {
  if (clock_ == nullptr) return;  // not started: start() asks again
  for (int i = 0; watch_ && i < kMaxAcceptsPerTurn; ++i) {
    sockaddr_storage name{};
    socklen_t name_bytes = sizeof name;
    const int fd = ::accept4(watch_->fd(), reinterpret_cast<sockaddr*>(&name), &name_bytes,
                             SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (fd < 0 && is_exhaustion(errno)) {
      log_warning(std::string("cannot accept a connection: ") + std::strerror(errno));
      resume_at_ = clock_->now() + limits_->accept_error_wait;
      return;
    }
    if (fd < 0) continue;  // the client gave up before it was accepted
    if (!address_.is_unix()) {
      const int yes = 1;
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    }
    // The kernel doubles the value for its own bookkeeping.
    const int buffer_bytes = static_cast<int>(limits_->send_buffer_bytes / 2);
    ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
    on_accept_(fd, peer_of(name));
  }
  if (watch_) watch_->tell_again();
}

}  // namespace turnstile::gateway

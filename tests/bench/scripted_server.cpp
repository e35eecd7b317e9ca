#include "tests/bench/scripted_server.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cassert>
#include <utility>

namespace turnstile::load {
namespace {

// Reads up to the end of one request; false when the client closed.
bool read_request(int descriptor, std::string& bytes) {
  char piece[4096];
  for (;;) {
    const std::size_t head_end = bytes.find("\r\n\r\n");
    if (head_end != std::string::npos) {
      const std::size_t at = bytes.find("Content-Length: ");
      const std::size_t total = head_end + 4 + std::stoul(bytes.substr(at + 16));
      if (bytes.size() >= total) {
        bytes.erase(0, total);
        return true;
      }
    }
    const ssize_t count = ::recv(descriptor, piece, sizeof piece, 0);
    if (count <= 0) return false;
    bytes.append(piece, static_cast<std::size_t>(count));
  }
}

}  // namespace

ScriptedServer::ScriptedServer(Answer answer) : answer_(std::move(answer)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  const bool listens = ::bind(listener_, generic, size) == 0 && ::listen(listener_, 64) == 0 &&
                       ::getsockname(listener_, generic, &size) == 0;
  assert(listens && "a free port on the loopback");
  port_ = listens ? std::to_string(ntohs(address.sin_port)) : "";
  acceptor_ = std::thread([this] { accept_all(); });
}

ScriptedServer::~ScriptedServer() {
  ::shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  ::close(listener_);
  for (const int descriptor : descriptors_) ::shutdown(descriptor, SHUT_RDWR);
  for (std::thread& thread : threads_) thread.join();
  for (const int descriptor : descriptors_) ::close(descriptor);
}

void ScriptedServer::accept_all() {
  for (;;) {
    const int descriptor = ::accept(listener_, nullptr, nullptr);
    if (descriptor < 0) return;
    ++connection_count_;
    const std::lock_guard lock(mutex_);
    descriptors_.push_back(descriptor);
    threads_.emplace_back([this, descriptor] { serve(descriptor); });
  }
}

void ScriptedServer::serve(int descriptor) {
  std::string bytes;
  for (int number = 0; read_request(descriptor, bytes); ++number) {
    ++request_count_;
    const std::string answer = answer_(number);
    if (answer.empty()) break;
    ::send(descriptor, answer.data(), answer.size(), MSG_NOSIGNAL);
  }
  ::shutdown(descriptor, SHUT_RDWR);
}

}  // namespace turnstile::load

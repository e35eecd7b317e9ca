// scripted_server.h: a small blocking HTTP server on a free port, for tests of the load loop.
//
// Each accepted connection has a thread that answers request after request with what `answer`
// returns; an empty answer closes the connection. Stops, and joins its threads, in the destructor.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace turnstile::load {

class ScriptedServer {
 public:
  // Called with the number of the request on its connection, from 0; from several threads.
  using Answer = std::function<std::string(int request_on_connection)>;

  explicit ScriptedServer(Answer answer);
  ~ScriptedServer();

  const std::string& port() const { return port_; }
  int request_count() const { return request_count_; }
  int connection_count() const { return connection_count_; }

 private:
  void accept_all();
  void serve(int descriptor);

  Answer answer_;
  int listener_ = -1;
  std::string port_;
  std::atomic<int> request_count_{0};
  std::atomic<int> connection_count_{0};
  std::mutex mutex_;                 // guards the two below
  std::vector<int> descriptors_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

}  // namespace turnstile::load

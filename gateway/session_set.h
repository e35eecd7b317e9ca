// session_set.h: the sessions that are alive, each with its coroutine.
//
// Thread:    I/O.
// Ownership: owns the sessions; one is destroyed when its coroutine has ended.
// Tests:     tests/sim/spine_sim_test.cpp, tests/gateway/plain_routes_test.cpp.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <unordered_map>

#include "gateway/http/connection.h"
#include "gateway/http/routes.h"
#include "gateway/session.h"
#include "gateway/spine_context.h"

namespace turnstile::gateway {

class SessionSet {
 public:
  explicit SessionSet(SpineContext& context) : context_(context) {}
  SessionSet(const SessionSet&) = delete;
  SessionSet& operator=(const SessionSet&) = delete;

  // Takes the connection over; `on_end` is called when it is over.
  void adopt(std::unique_ptr<Connection> connection, ListenerKind listener,
             std::function<void()> on_end = {});

  // Cuts off the connection whose handshake takes longest, so that those who only connect cannot
  // keep others out. O(size()).
  void drop_oldest_handshake();

  // Tells every session that the server ends now.
  void shut_down_all();

  // Cuts every connection off, so that each coroutine ends without waiting for anybody: a coroutine
  // must not outlive what it refers to. Run the loop until size() is 0.
  void abandon_all();

  std::size_t size() const { return sessions_.size(); }

 private:
  SpineContext& context_;
  std::unordered_map<const Session*, std::unique_ptr<Session>> sessions_;
};

}  // namespace turnstile::gateway

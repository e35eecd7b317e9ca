// admin_access.h: who may ask what of the admin listener.
//
//   listens on          GET, HEAD                              every other method
//   unix socket         whoever may open it                    the same, or the admin key
//   loopback            programs of this host, or the key      the same, or the admin key
//   another address     the admin key                          the admin key
//
// Where `admin_key_file` is set, methods of the last column need that key everywhere; where it is
// not, the configuration lets the listener be on loopback or a unix socket only. Health needs
// nothing: a word is no secret.
//
// A browser on this host is a program of this host, a web page in it is not. A page of a domain
// whose name is made to mean 127.0.0.1 (DNS rebinding) may read what is answered there; it shows by
// its Host, which is that name. So without the key Host must be `localhost` or an address. And a
// page may send a POST anywhere without reading the answer; it shows by its Origin.
//
// Thread: any; a value. Errors: ApiError 401 and 403, with the remedy.
// Tests:  tests/gateway/admin_access_test.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <tl/expected.hpp>

#include "gateway/api/api_error.h"
#include "gateway/config/listen_address.h"
#include "gateway/http/http_reader.h"

namespace turnstile::gateway {

struct ServerConfig;

class AdminAccess {
 public:
  // Loopback, without a key.
  AdminAccess() = default;
  // `key` empty: none is set.
  AdminAccess(const ListenAddress& listens_on, std::string key);

  // Reads the key. The error is one sentence with the file's name.
  static tl::expected<AdminAccess, std::string> load(const ServerConfig& server);

  // Absent: it may.
  std::optional<ApiError> refusal(const RequestHead& head) const;

 private:
  bool has_key(const RequestHead& head) const;

  enum class Reach : std::uint8_t { UnixSocket, Loopback, Network };
  Reach reach_ = Reach::Loopback;
  std::string key_;
};

}  // namespace turnstile::gateway

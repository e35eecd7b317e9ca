// listen_address.h: where a listener listens, as a value and as text.
//
// Thread: any; values. Errors: the end of a sentence that starts with the setting's name.
// Tests:  tests/gateway/config_test.cpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

namespace turnstile::gateway {

// "127.0.0.1:8000", "[::1]:8000", "0.0.0.0:0" (a free port) or "unix:PATH".
struct ListenAddress {
  std::string host;  // without brackets; empty for a unix socket
  std::uint16_t port = 0;
  std::filesystem::path unix_path;

  bool is_unix() const { return !unix_path.empty(); }
  bool is_loopback() const;  // 127.0.0.0/8, ::1, localhost, or a unix socket
  std::string text() const;
};
tl::expected<ListenAddress, std::string> parse_listen_address(std::string_view text);

}  // namespace turnstile::gateway

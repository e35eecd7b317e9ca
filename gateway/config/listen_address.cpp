#include "gateway/config/listen_address.h"

#include <charconv>

namespace turnstile::gateway {

tl::expected<ListenAddress, std::string> parse_listen_address(std::string_view text) {
  const auto wrong_form = tl::unexpected(
      std::string("must be HOST:PORT such as \"127.0.0.1:8000\" or \"[::1]:8000\"."));
  ListenAddress address;
  if (text.starts_with("unix:")) {
    address.unix_path = std::string(text.substr(5));
    if (address.unix_path.empty()) {
      return tl::unexpected(std::string("has no path after \"unix:\"."));
    }
    return address;
  }
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return wrong_form;
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  const bool has_brackets = host.front() == '[' && host.back() == ']' && host.size() > 2;
  if (has_brackets) host = host.substr(1, host.size() - 2);
  if (!has_brackets && host.find(':') != std::string_view::npos) return wrong_form;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (error != std::errc() || end != port.data() + port.size()) return wrong_form;
  address.host = host;
  return address;
}

bool ListenAddress::is_loopback() const {
  // "127.example.org" is a name.
  const bool is_127 = host.starts_with("127.") &&
                      host.find_first_not_of("0123456789.") == std::string::npos;
  return is_unix() || host == "localhost" || host == "::1" || is_127;
}

std::string ListenAddress::text() const {
  if (is_unix()) return "unix:" + unix_path.string();
  const bool is_v6 = host.find(':') != std::string::npos;
  return (is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

}  // namespace turnstile::gateway

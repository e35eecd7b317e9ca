#include "gateway/admin_access.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <string_view>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>

#include "gateway/config/config.h"
#include "gateway/keys/key_files.h"
#include "gateway/keys/key_secret.h"
#include "gateway/keys/keys.h"

namespace turnstile::gateway {
namespace {

// Far below what a header may hold (max_header_field_bytes).
constexpr std::size_t kMaxKeyChars = 1'024;

bool is_visible(char c) { return c > ' ' && c < '\x7f'; }

// HOST or HOST:PORT, the address of IPv6 in brackets -> the host; empty when it is neither.
std::string_view without_port(std::string_view text) {
  const bool is_bracketed = text.starts_with('[');
  const std::size_t end = text.find(is_bracketed ? ']' : ':');
  if (is_bracketed && end == std::string_view::npos) return {};
  std::string_view port = end == std::string_view::npos ? "" : text.substr(end + is_bracketed);
  if (!port.empty() && (port.front() != ':' ||
                        port.find_first_not_of("0123456789", 1) != std::string_view::npos)) {
    return {};
  }
  return is_bracketed ? text.substr(1, end - 1) : text.substr(0, end);
}

// Whether no page of a stranger's domain can be behind it. HTTP/1.0 knows requests without a Host;
// browsers do not send such.
bool is_address_or_localhost(std::string_view host_and_port) {
  if (host_and_port.empty()) return true;
  const std::string host(without_port(host_and_port));
  in6_addr ignored{};
  if (::inet_pton(AF_INET, host.c_str(), &ignored) == 1) return true;
  if (::inet_pton(AF_INET6, host.c_str(), &ignored) == 1) return true;
  constexpr std::string_view kLocalhost = "localhost";
  if (host.size() != kLocalhost.size()) return false;
  for (std::size_t i = 0; i < host.size(); ++i) {
    if ((host[i] | 0x20) != kLocalhost[i]) return false;
  }
  return true;
}

}  // namespace

AdminAccess::AdminAccess(const ListenAddress& listens_on, std::string key) : key_(std::move(key)) {
  if (listens_on.is_unix()) {
    reach_ = Reach::UnixSocket;
  } else if (!listens_on.is_loopback()) {
    reach_ = Reach::Network;
    assert(!key_.empty() && "the configuration was checked");
  }
}

tl::expected<AdminAccess, std::string> AdminAccess::load(const ServerConfig& server) {
  if (server.admin_key_file.empty()) return AdminAccess(server.admin_listen, {});
  auto key = read_secret_file(server.admin_key_file, "admin key");
  if (!key) return tl::unexpected(server.admin_key_file.string() + ": " + key.error());
  if (key->size() > kMaxKeyChars || !std::ranges::all_of(*key, is_visible)) {
    return tl::unexpected(server.admin_key_file.string() +
                          ": the admin key must be one line of at most " +
                          std::to_string(kMaxKeyChars) +
                          " letters, digits and signs without spaces, for a header carries it; "
                          "'turnstile init DIR' makes one.");
  }
  return AdminAccess(server.admin_listen, *std::move(key));
}

bool AdminAccess::has_key(const RequestHead& head) const {
  const auto given = bearer_credentials(head.authorization);
  return !key_.empty() && given && given->size() == key_.size() &&
         equal_in_constant_time(*given, key_);
}

std::optional<ApiError> AdminAccess::refusal(const RequestHead& head) const {
  if (has_key(head)) return std::nullopt;
  const bool only_reads = head.method == Method::Get || head.method == Method::Head;
  if (reach_ == Reach::Network || (!only_reads && !key_.empty())) {
    return make_error(ApiCode::InvalidApiKey,
                      "This needs the key of admin_key_file: send it as \"Authorization: Bearer "
                      "KEY\".");
  }
  if (reach_ == Reach::UnixSocket) return std::nullopt;
  if (!is_address_or_localhost(head.host)) {
    return make_error(ApiCode::NotLocal,
                      "Under this host name only the holder of the admin key is answered: ask by "
                      "127.0.0.1, [::1] or localhost, or send the key of admin_key_file as "
                      "\"Authorization: Bearer KEY\".");
  }
  if (!only_reads && head.has_origin) {
    return make_error(ApiCode::NotLocal,
                      "Web pages may not ask this: set admin_key_file, and send its key as "
                      "\"Authorization: Bearer KEY\".");
  }
  return std::nullopt;
}

}  // namespace turnstile::gateway

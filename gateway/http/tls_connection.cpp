#include "gateway/http/tls_connection.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <new>
#include <utility>

#include <openssl/bio.h>
#include <openssl/err.h>

namespace turnstile::gateway {
namespace {

constexpr std::size_t kRecordBytes = 16'384;
constexpr char kCiphers12[] = "ECDHE+AESGCM:ECDHE+CHACHA20";
constexpr char kGroups[] = "X25519:P-256";
constexpr unsigned char kProtocols[] = "\x08http/1.1";

std::string openssl_error() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (ERR_SYSTEM_ERROR(code)) return std::strerror(ERR_GET_REASON(code));
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "unknown TLS error" : reason;
}

int choose_protocol(SSL*, const unsigned char** out, unsigned char* out_bytes,
                    const unsigned char* offered, unsigned offered_bytes, void*) {
  unsigned char* chosen = nullptr;
  const int result = SSL_select_next_proto(&chosen, out_bytes, kProtocols,
                                           sizeof kProtocols - 1, offered, offered_bytes);
  *out = chosen;
  return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

bool set_rules(SSL_CTX* context) {
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                   SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_select_cb(context, choose_protocol, nullptr);
  return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
         SSL_CTX_set_cipher_list(context, kCiphers12) == 1 &&
         SSL_CTX_set1_groups_list(context, kGroups) == 1;
}

}  // namespace

tl::expected<TlsContext::Context, std::string> TlsContext::read(
    const std::filesystem::path& certificate, const std::filesystem::path& key) {
  using std::filesystem::perms;
  std::error_code error;
  const perms mode = std::filesystem::status(key, error).permissions();
  if (error) return tl::unexpected(key.string() + ": " + error.message() + "; check tls_key");
  if ((mode & (perms::group_all | perms::others_all)) != perms::none) {
    return tl::unexpected(key.string() +
                          ": the key is accessible to others; run chmod 600 on it");
  }
  ERR_clear_error();
  Context context(SSL_CTX_new(TLS_server_method()));
  if (!context || !set_rules(context.get())) return tl::unexpected("TLS: " + openssl_error());
  if (SSL_CTX_use_certificate_chain_file(context.get(), certificate.c_str()) != 1) {
    return tl::unexpected(certificate.string() + ": " + openssl_error() + "; check tls_cert");
  }
  if (SSL_CTX_use_PrivateKey_file(context.get(), key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return tl::unexpected(key.string() + ": " + openssl_error() + "; check tls_key");
  }
  if (SSL_CTX_check_private_key(context.get()) != 1) {
    return tl::unexpected(key.string() + ": the key does not belong to the certificate in " +
                          certificate.string());
  }
  return context;
}

tl::expected<std::unique_ptr<TlsContext>, std::string> TlsContext::load(
    const std::filesystem::path& certificate, const std::filesystem::path& key) {
  // Taken before they are read: a change in between shows at the next look.
  const Version version{version_of(certificate), version_of(key)};
  auto context = read(certificate, key);
  if (!context) return tl::unexpected(context.error());
  return std::unique_ptr<TlsContext>(
      new TlsContext(certificate, key, version, std::move(*context)));
}

TlsContext::TlsContext(std::filesystem::path certificate, std::filesystem::path key,
                       const Version& version, Context context)
    : certificate_(std::move(certificate)),
      key_(std::move(key)),
      tried_(version),
      context_(std::move(context)) {}

TlsContext::Reload TlsContext::reload_if_changed() {
  const Version found{version_of(certificate_), version_of(key_)};
  const bool is_same = found == tried_;
  if (is_same && reload_error_.empty()) return Reload::Unchanged;
  tried_ = found;
  auto context = read(certificate_, key_);
  const std::string said =
      std::exchange(reload_error_, context ? std::string() : context.error());
  if (!context) return is_same && reload_error_ == said ? Reload::Unchanged : Reload::Rejected;
  context_ = std::move(*context);
  return Reload::Applied;
}

std::unique_ptr<Connection> TlsContext::wrap(std::unique_ptr<Connection> inner) const {
  return std::make_unique<TlsConnection>(context_.get(), std::move(inner));
}

TlsConnection::TlsConnection(SSL_CTX* context, std::unique_ptr<Connection> inner)
    : inner_(std::move(inner)), ssl_(SSL_new(context)) {
  BIO* in = BIO_new(BIO_s_mem());
  BIO* out = BIO_new(BIO_s_mem());
  if (!ssl_ || in == nullptr || out == nullptr) throw std::bad_alloc();
  SSL_set_bio(ssl_.get(), in, out);  // takes both over
  SSL_set_accept_state(ssl_.get());
}

void TlsConnection::start(ConnectionSink& sink) {
  sink_ = &sink;
  inner_->start(*this);
}

// Moves cipher bytes from the inner connection to OpenSSL; only when OpenSSL asks for some, so that
// no more than one buffer of them waits there.
TlsConnection::Pull TlsConnection::pull() {
  std::array<char, kRecordBytes> buffer;
  const Transfer got = inner_->read_some(buffer);
  if (got.bytes > 0) {
    const int stored = BIO_write(SSL_get_rbio(ssl_.get()), buffer.data(),
                                 static_cast<int>(got.bytes));
    assert(stored == static_cast<int>(got.bytes) && "a memory buffer takes all bytes");
    return Pull::Some;
  }
  return got.closed ? Pull::Closed : Pull::Nothing;
}

// True when the handshake is done.
bool TlsConnection::shake_hands() {
  while (!is_open_ && !has_ended_) {
    ERR_clear_error();
    const int result = SSL_do_handshake(ssl_.get());
    const int error = SSL_get_error(ssl_.get(), result);
    flush();
    if (result == 1) {
      is_open_ = true;
    } else if (error == SSL_ERROR_WANT_READ) {
      const Pull pulled = pull();
      if (pulled == Pull::Nothing) return false;
      if (pulled == Pull::Closed) has_ended_ = true;
    } else {
      has_ended_ = true;  // the alert is on its way
    }
  }
  return is_open_;
}

Transfer TlsConnection::read_some(std::span<char> into) {
  if (!is_open_ && !shake_hands()) return {.bytes = 0, .closed = has_ended_};
  std::size_t total = 0;
  while (total < into.size() && !has_ended_) {
    ERR_clear_error();
    std::size_t bytes = 0;
    const int result =
        SSL_read_ex(ssl_.get(), into.data() + total, into.size() - total, &bytes);
    if (result == 1) {
      total += bytes;
      continue;
    }
    if (SSL_get_error(ssl_.get(), result) != SSL_ERROR_WANT_READ) {
      has_ended_ = true;  // close_notify, or a broken record
      break;
    }
    const Pull pulled = pull();
    if (pulled == Pull::Nothing) break;
    if (pulled == Pull::Closed) has_ended_ = true;
  }
  flush();
  return {.bytes = total, .closed = total == 0 && has_ended_};
}

Transfer TlsConnection::write_some(std::string_view bytes) {
  if (has_ended_) return {.bytes = 0, .closed = true};
  if (!flush()) return {.bytes = 0, .closed = has_ended_};
  std::size_t reported = std::min(std::exchange(unreported_, 0), bytes.size());
  while (reported < bytes.size()) {
    const std::string_view piece = bytes.substr(reported, kRecordBytes);
    ERR_clear_error();
    std::size_t taken = 0;
    if (SSL_write_ex(ssl_.get(), piece.data(), piece.size(), &taken) != 1) {
      has_ended_ = true;
      return {.bytes = reported, .closed = reported == 0};
    }
    if (!flush()) {
      unreported_ = taken;
      break;
    }
    reported += taken;
  }
  return {.bytes = reported, .closed = false};
}

// True when no cipher byte waits for the inner connection.
bool TlsConnection::flush() {
  BIO* out = SSL_get_wbio(ssl_.get());
  const std::size_t waiting = BIO_ctrl_pending(out);
  if (waiting > 0) {
    const std::size_t old_size = cipher_out_.size();
    cipher_out_.resize(old_size + waiting);
    BIO_read(out, cipher_out_.data() + old_size, static_cast<int>(waiting));
  }
  if (cipher_out_.empty()) return true;
  const Transfer sent = inner_->write_some(cipher_out_);
  if (sent.closed) has_ended_ = true;
  cipher_out_.erase(0, sent.bytes);
  return cipher_out_.empty();
}

void TlsConnection::on_writable() {
  if (flush() && shuts_down_) inner_->shut_down_write();
  sink_->on_writable();
}

void TlsConnection::shut_down_write() {
  if (has_ended_) return;
  ERR_clear_error();
  if (is_open_) SSL_shutdown(ssl_.get());
  if (flush()) {
    inner_->shut_down_write();
  } else {
    shuts_down_ = true;
  }
}

}  // namespace turnstile::gateway

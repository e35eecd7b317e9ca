// tls_connection.h: TLS over any other Connection.
//
//   session <--plain--> [ OpenSSL between two memory buffers ] <--cipher--> inner connection
//
// TLS 1.2 and 1.3; 1.2 only with ECDHE and AES-GCM or ChaCha20; X25519 and P-256; no renegotiation,
// compression, tickets or session cache; ALPN http/1.1. A client that ends without close_notify is
// gone like any other; a short body is never taken for a complete one, because HTTP says its
// length.
//
// A byte counts as written when its record has left for the inner connection: until then
// write_some() does not report it, so a session that closes after "all written" cuts nothing off.
//
// Thread:    I/O.
// Ownership: TlsContext outlives its connections; each connection keeps the certificate it began
// with.
// Source:    RFC 8446 (TLS 1.3), RFC 5246 (TLS 1.2).
// Tests:     tests/gateway/connection_test.cpp (over memory connections, with OpenSSL as the
// client).
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <openssl/ssl.h>
#include <tl/expected.hpp>

#include "gateway/file_version.h"
#include "gateway/http/connection.h"

namespace turnstile::gateway {

struct SslContextDeleter {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
struct SslDeleter {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};

class TlsContext {
 public:
  // The error is a sentence that names the file. The key file must not be readable by others.
  static tl::expected<std::unique_ptr<TlsContext>, std::string> load(
      const std::filesystem::path& certificate, const std::filesystem::path& key);

  // Looks whether the files have changed and takes the new pair. On error the old pair stays, and
  // the new one is tried again at each call, for what hinders may pass and leave no trace in the
  // files; Rejected comes once for it.
  enum class Reload { Unchanged, Applied, Rejected };
  Reload reload_if_changed();
  // Empty: the pair on disk is in use.
  const std::string& reload_error() const { return reload_error_; }

  std::unique_ptr<Connection> wrap(std::unique_ptr<Connection> inner) const;

 private:
  using Context = std::unique_ptr<SSL_CTX, SslContextDeleter>;
  struct Version {
    std::optional<FileVersion> certificate;
    std::optional<FileVersion> key;
    bool operator==(const Version&) const = default;
  };

  TlsContext(std::filesystem::path certificate, std::filesystem::path key, const Version& version,
             Context context);
  static tl::expected<Context, std::string> read(const std::filesystem::path& certificate,
                                                 const std::filesystem::path& key);

  std::filesystem::path certificate_;
  std::filesystem::path key_;
  Version tried_;
  Context context_;
  std::string reload_error_;
};

class TlsConnection final : public Connection, private ConnectionSink {
 public:
  TlsConnection(SSL_CTX* context, std::unique_ptr<Connection> inner);

  void start(ConnectionSink& sink) override;
  bool is_open() const override { return is_open_; }
  Transfer read_some(std::span<char> into) override;
  Transfer write_some(std::string_view bytes) override;
  void shut_down_write() override;
  void close() override { inner_->close(); }
  const PeerAddress& peer() const override { return inner_->peer(); }

 private:
  void on_readable() override { sink_->on_readable(); }
  void on_writable() override;

  enum class Pull { Some, Nothing, Closed };
  Pull pull();
  bool shake_hands();
  bool flush();

  std::unique_ptr<Connection> inner_;
  std::unique_ptr<SSL, SslDeleter> ssl_;
  ConnectionSink* sink_ = nullptr;
  std::string cipher_out_;       // what the inner connection had no room for
  std::size_t unreported_ = 0;   // plain bytes in cipher_out_ that write_some() has not reported
  bool is_open_ = false;
  bool has_ended_ = false;       // by the client, or by a fault of the protocol
  bool shuts_down_ = false;      // shut_down_write() waits for cipher_out_ to leave
};

}  // namespace turnstile::gateway

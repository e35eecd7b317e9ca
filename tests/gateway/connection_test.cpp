// The contract of connection.h, held to by all three: memory, socket, and TLS over memory.
#include "gateway/http/connection.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "gateway/http/socket_connection.h"
#include "gateway/http/tls_connection.h"
#include "tests/support/manual_clock.h"
#include "tests/support/memory_connection.h"
#include "tests/support/no_descriptors.h"
#include "tests/support/temp_folder.h"

namespace turnstile::tests {
namespace {

using namespace gateway;

struct Sink final : ConnectionSink {
  void on_readable() override { ++readable; }
  void on_writable() override { ++writable; }
  int readable = 0;
  int writable = 0;
};

// One kind of connection with the means to play its client.
class Wire {
 public:
  virtual ~Wire() = default;
  virtual Connection& server() = 0;
  virtual void send(std::string_view bytes) = 0;
  virtual std::string receive() = 0;  // everything that is there
  virtual void leave() = 0;           // the client's orderly end
  virtual void settle() {}            // lets events through

  std::string read_all() {
    std::string text;
    char buffer[64];
    for (;;) {
      settle();
      const Transfer got = server().read_some(buffer);
      text.append(buffer, got.bytes);
      if (got.bytes == 0) return text;
    }
  }
};

class MemoryWire final : public Wire {
 public:
  MemoryWire() : connection_(client_.connect()) {}
  Connection& server() override { return *connection_; }
  void send(std::string_view bytes) override { client_.send(bytes); }
  std::string receive() override { return client_.take(); }
  void leave() override { client_.close(); }

 private:
  MemoryClient client_;
  std::unique_ptr<Connection> connection_;
};

class SocketWire final : public Wire {
 public:
  SocketWire() {
    int ends[2] = {};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    client_ = ends[1];
    connection_ =
        std::make_unique<SocketConnection>(loop_, ends[0], PeerAddress{"unix", true});
  }
  ~SocketWire() override {
    if (client_ >= 0) ::close(client_);
  }
  Connection& server() override { return *connection_; }
  void send(std::string_view bytes) override {
    EXPECT_EQ(::send(client_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  std::string receive() override {
    std::string text;
    char buffer[4096];
    for (ssize_t got = 0; (got = ::recv(client_, buffer, sizeof buffer, 0)) > 0;) {
      text.append(buffer, static_cast<std::size_t>(got));
    }
    return text;
  }
  void leave() override {
    ::close(client_);
    client_ = -1;
  }
  void settle() override {
    loop_.poll();
  }

 private:
  ManualClock clock_;
  EventLoop loop_{clock_};
  int client_ = -1;
  std::unique_ptr<Connection> connection_;
};

// A self-signed certificate for this run, written as the two files that the server reads.
void write_certificate(const std::filesystem::path& folder) {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  X509_sign(certificate, key, EVP_sha256());
  FILE* file = std::fopen((folder / "cert.pem").c_str(), "w");
  PEM_write_X509(file, certificate);
  std::fclose(file);
  file = std::fopen((folder / "key.pem").c_str(), "w");
  PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(file);
  std::filesystem::permissions(folder / "key.pem", std::filesystem::perms::owner_read |
                                                       std::filesystem::perms::owner_write);
  X509_free(certificate);
  EVP_PKEY_free(key);
}

class TlsWire final : public Wire {
 public:
  explicit TlsWire(int client_version = TLS1_3_VERSION) {
    write_certificate(folder_.path());
    auto context = TlsContext::load(folder_.path() / "cert.pem", folder_.path() / "key.pem");
    EXPECT_TRUE(context) << (context ? "" : context.error());
    context_ = std::move(*context);
    connection_ = context_->wrap(client_.connect());
    client_context_.reset(SSL_CTX_new(TLS_client_method()));
    SSL_CTX_set_security_level(client_context_.get(), 0);
    SSL_CTX_set_min_proto_version(client_context_.get(), client_version);
    SSL_CTX_set_max_proto_version(client_context_.get(), client_version);
    ssl_.reset(SSL_new(client_context_.get()));
    SSL_set_bio(ssl_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(ssl_.get());
  }

  // Both sides in turn until neither moves.
  void shake_hands() {
    for (int i = 0; i < 10 && !connection_->is_open(); ++i) {
      SSL_do_handshake(ssl_.get());
      push();
      char nothing[1];
      connection_->read_some(nothing);
      pull();
    }
    SSL_do_handshake(ssl_.get());
    push();
  }
  Connection& server() override { return *connection_; }
  void send(std::string_view bytes) override {
    EXPECT_GT(SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())), 0);
    push();
  }
  std::string receive() override {
    pull();
    std::string text;
    char buffer[4096];
    for (int got = 0; (got = SSL_read(ssl_.get(), buffer, sizeof buffer)) > 0;) {
      text.append(buffer, static_cast<std::size_t>(got));
    }
    return text;
  }
  void leave() override {
    SSL_shutdown(ssl_.get());
    push();
  }
  MemoryClient& raw() { return client_; }
  const std::filesystem::path& folder() const { return folder_.path(); }
  TlsContext& context() { return *context_; }

 private:
  void push() {
    char buffer[4096];
    for (int got = 0; (got = BIO_read(SSL_get_wbio(ssl_.get()), buffer, sizeof buffer)) > 0;) {
      client_.send(std::string_view(buffer, static_cast<std::size_t>(got)));
    }
  }
  void pull() {
    const std::string cipher = client_.take();
    BIO_write(SSL_get_rbio(ssl_.get()), cipher.data(), static_cast<int>(cipher.size()));
  }

  TempFolder folder_;
  MemoryClient client_;
  std::unique_ptr<TlsContext> context_;
  std::unique_ptr<Connection> connection_;
  std::unique_ptr<SSL_CTX, SslContextDeleter> client_context_;
  std::unique_ptr<SSL, SslDeleter> ssl_;
};

void keeps_the_contract(Wire& wire, Sink& sink) {
  wire.send("one");
  wire.settle();
  EXPECT_GT(sink.readable, 0);
  EXPECT_EQ(wire.read_all(), "one");

  const std::string long_text(200'000, 'x');
  std::size_t written = 0;
  std::string got;
  for (int i = 0; i < 10'000 && written < long_text.size(); ++i) {
    const Transfer sent = wire.server().write_some(std::string_view(long_text).substr(written));
    ASSERT_FALSE(sent.closed);
    written += sent.bytes;
    got += wire.receive();
    wire.settle();
  }
  got += wire.receive();
  EXPECT_EQ(got, long_text);

  // The client's end is told although nobody was reading.
  const int before = sink.readable;
  wire.send("last");
  wire.leave();
  wire.settle();
  EXPECT_GT(sink.readable, before);
  EXPECT_EQ(wire.read_all(), "last");
  char buffer[8];
  wire.settle();
  EXPECT_TRUE(wire.server().read_some(buffer).closed);
  wire.server().close();
  EXPECT_TRUE(wire.server().read_some(buffer).closed);
}

TEST(Connection, MemoryKeepsTheContract) {
  Sink sink;
  MemoryWire wire;
  wire.server().start(sink);
  keeps_the_contract(wire, sink);
}

TEST(Connection, SocketKeepsTheContract) {
  Sink sink;
  SocketWire wire;
  wire.server().start(sink);
  keeps_the_contract(wire, sink);
}

// The rest of a long answer goes on when the client has read; who has nothing left is not woken.
TEST(SocketConnection, TellsOfRoomWhoWasLeftWithoutIt) {
  Sink sink;
  SocketWire wire;
  wire.server().start(sink);
  wire.settle();
  EXPECT_EQ(wire.server().write_some("short").bytes, 5U);
  EXPECT_EQ(wire.receive(), "short");
  wire.settle();
  EXPECT_EQ(sink.writable, 0);

  const std::string long_text(4 << 20, 'x');
  const std::size_t sent = wire.server().write_some(long_text).bytes;
  ASSERT_LT(sent, long_text.size());
  wire.settle();
  EXPECT_EQ(sink.writable, 0);
  EXPECT_EQ(wire.receive().size(), sent);
  wire.settle();
  EXPECT_EQ(sink.writable, 1);
}

TEST(Connection, TlsKeepsTheContract) {
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    Sink sink;
    TlsWire wire(version);
    wire.server().start(sink);
    EXPECT_FALSE(wire.server().is_open());
    wire.shake_hands();
    ASSERT_TRUE(wire.server().is_open());
    keeps_the_contract(wire, sink);
  }
}

TEST(TlsConnection, RefusesVersionsBefore12) {
  Sink sink;
  TlsWire wire(TLS1_1_VERSION);
  wire.server().start(sink);
  wire.shake_hands();
  EXPECT_FALSE(wire.server().is_open());
  char buffer[8];
  EXPECT_TRUE(wire.server().read_some(buffer).closed);
}

TEST(TlsConnection, PlainHttpIsNoHandshake) {
  Sink sink;
  TlsWire wire;
  wire.server().start(sink);
  wire.raw().send("GET / HTTP/1.1\r\n\r\n");
  char buffer[8];
  EXPECT_TRUE(wire.server().read_some(buffer).closed);
}

// "Written" must mean that the record has left: a session closes after that.
TEST(TlsConnection, AByteIsNotReportedBeforeItsRecordHasLeft) {
  Sink sink;
  TlsWire wire;
  wire.server().start(sink);
  wire.shake_hands();
  wire.receive();
  wire.raw().set_window(5);
  EXPECT_EQ(wire.server().write_some("hello").bytes, 0U);
  wire.raw().set_window(1 << 20);
  EXPECT_GT(sink.writable, 0);
  EXPECT_EQ(wire.server().write_some("hello").bytes, 5U);
  EXPECT_EQ(wire.receive(), "hello");
}

TEST(TlsContext, ABadNewCertificateLeavesTheOldOne) {
  TlsWire wire;
  EXPECT_EQ(wire.context().reload_if_changed(), TlsContext::Reload::Unchanged);
  const auto path = wire.folder() / "cert.pem";
  std::filesystem::resize_file(path, 40);
  std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) +
                                             std::chrono::seconds(2));
  EXPECT_EQ(wire.context().reload_if_changed(), TlsContext::Reload::Rejected);
  EXPECT_NE(wire.context().reload_error().find("cert.pem"), std::string::npos);
  Sink sink;
  wire.server().start(sink);
  wire.shake_hands();
  EXPECT_TRUE(wire.server().is_open());
}

// What hinders may pass without a trace in the files.
TEST(TlsContext, ANewCertificateThatCannotBeReadIsTakenOnceItCan) {
  TlsWire wire;
  const auto path = wire.folder() / "cert.pem";
  std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) +
                                             std::chrono::seconds(2));
  std::string error;
  {
    const NoDescriptors none;
    EXPECT_EQ(wire.context().reload_if_changed(), TlsContext::Reload::Rejected);
    error = wire.context().reload_error();
    EXPECT_EQ(wire.context().reload_if_changed(), TlsContext::Reload::Unchanged) << "said once";
  }
  EXPECT_NE(error.find("Too many open files"), std::string::npos) << error;
  EXPECT_EQ(wire.context().reload_if_changed(), TlsContext::Reload::Applied);
  EXPECT_EQ(wire.context().reload_if_changed(), TlsContext::Reload::Unchanged);
}

TEST(TlsContext, AKeyThatOthersCanReadIsRefused) {
  TlsWire wire;
  const auto key = wire.folder() / "key.pem";
  std::filesystem::permissions(key, std::filesystem::perms::group_read,
                               std::filesystem::perm_options::add);
  const auto context = TlsContext::load(wire.folder() / "cert.pem", key);
  ASSERT_FALSE(context);
  EXPECT_NE(context.error().find("chmod 600"), std::string::npos);
}

}  // namespace
}  // namespace turnstile::tests

// Who may ask what of the admin listener, by address, key, Host and Origin.
#include "gateway/admin_access.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "gateway/config/config.h"
#include "gateway/whole_file.h"
#include "tests/support/temp_folder.h"

namespace turnstile::gateway {
namespace {

const std::string kKey = "adm_0123456789012345678901234567890123456789012";

AdminAccess listening_on(std::string_view address, const std::string& key = {}) {
  return {*parse_listen_address(address), key};
}

RequestHead request(Method method, std::string_view host, std::string_view credentials = {}) {
  RequestHead head;
  head.method = method;
  head.host = host;
  if (!credentials.empty()) head.authorization = "Bearer " + std::string(credentials);
  return head;
}

// 0: it may.
int status(const AdminAccess& access, const RequestHead& head) {
  const auto refusal = access.refusal(head);
  return refusal ? refusal->status() : 0;
}

// A page of evil.example, whose name now means 127.0.0.1, sends its own name as Host.
TEST(AdminAccess, AHostThatAStrangerCanNameIsRefusedOnLoopback) {
  const AdminAccess access = listening_on("127.0.0.1:8001", kKey);
  for (const char* host : {"localhost", "localhost:8001", "LocalHost:8001", "127.0.0.1",
                           "127.0.0.1:8001", "127.1.2.3:9", "192.0.2.1:80", "[::1]", "[::1]:8001",
                           "[::ffff:127.0.0.1]:8001", ""}) {
    EXPECT_EQ(status(access, request(Method::Get, host)), 0) << host;
    EXPECT_EQ(status(access, request(Method::Head, host)), 0) << host;
  }
  for (const char* host :
       {"evil.example", "evil.example:8001", "localhost.evil.example", "evil-localhost",
        "127.0.0.1.evil.example", "127.0.0.1.", "1.2.3", "[evil]", "[::1", "::1", "[]", ":8001",
        "localhos\x0c", "[::1]evil.example", "[::1].evil.example:80", "127.0.0.1:evil",
        "localhost:80:evil.example", "localhost:1 "}) {
    const auto refusal = access.refusal(request(Method::Get, host));
    ASSERT_TRUE(refusal) << host;
    EXPECT_EQ(refusal->code, ApiCode::NotLocal) << host;
    EXPECT_NE(refusal->message.find("admin_key_file"), std::string::npos);
    EXPECT_EQ(status(access, request(Method::Get, host, kKey)), 0) << host;
  }
}

// What no header can carry would close the listener without a word.
TEST(AdminAccess, AKeyThatNoRequestCanSendIsRefused) {
  TempFolder folder;
  ServerConfig server;
  server.admin_listen = *parse_listen_address("127.0.0.1:8001");
  server.admin_key_file = folder / "admin.key";
  const auto load = [&](const std::string& text) {
    std::filesystem::remove(server.admin_key_file);
    EXPECT_TRUE(create_file(server.admin_key_file, text, 0600));
    return AdminAccess::load(server);
  };
  for (const std::string& wrong :
       {kKey + "\nmore\n", kKey + " \n", " " + kKey, kKey + " b", kKey + std::string(1, '\0'),
        "\xef\xbb\xbf" + kKey, kKey + "\xc3\xa4", std::string(1'025, 'a'), kKey + "\t"}) {
    const auto access = load(wrong);
    ASSERT_FALSE(access) << wrong.substr(0, 80);
    EXPECT_NE(access.error().find("one line of at most 1024"), std::string::npos)
        << access.error();
  }
  for (const std::string& good :
       {kKey, kKey + "\n", kKey + "\r\n", std::string(1'024, 'a'), kKey + "!~+/="}) {
    EXPECT_TRUE(load(good)) << good.substr(0, 80);
  }
  std::filesystem::remove(server.admin_key_file);
  const auto missing = AdminAccess::load(server);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().find("turnstile init"), std::string::npos) << missing.error();
  std::filesystem::create_directory(server.admin_key_file);
  const auto folder_there = AdminAccess::load(server);
  ASSERT_FALSE(folder_there);
  EXPECT_EQ(folder_there.error().find("turnstile init"), std::string::npos)
      << "which overwrites nothing: " << folder_there.error();
  EXPECT_NE(folder_there.error().find("not a regular file"), std::string::npos);
}

TEST(AdminAccess, AKeyThatIsSetIsNeededForWhatChangesSomething) {
  for (const char* address : {"127.0.0.1:8001", "unix:/run/t.sock", "192.0.2.1:8001"}) {
    const AdminAccess access = listening_on(address, kKey);
    for (const Method method : {Method::Post, Method::Options, Method::Other}) {
      EXPECT_EQ(status(access, request(method, "localhost")), 401) << address;
      EXPECT_EQ(status(access, request(method, "localhost", kKey)), 0) << address;
      std::string wrong = kKey;
      wrong.back() ^= 1;
      for (const std::string& other : {wrong, kKey + "0", kKey.substr(1), std::string("x")}) {
        EXPECT_EQ(status(access, request(method, "localhost", other)), 401) << address;
      }
    }
  }
}

TEST(AdminAccess, OffLoopbackNothingIsAnsweredWithoutTheKey) {
  const AdminAccess access = listening_on("0.0.0.0:8001", kKey);
  EXPECT_EQ(status(access, request(Method::Get, "localhost")), 401);
  EXPECT_EQ(status(access, request(Method::Get, "metrics.example", kKey)), 0);
}

TEST(AdminAccess, AUnixSocketIsOutOfReachOfWebPages) {
  const AdminAccess access = listening_on("unix:/run/t.sock");
  EXPECT_EQ(status(access, request(Method::Get, "any.name")), 0);
  EXPECT_EQ(status(access, request(Method::Post, "any.name")), 0);
}

// A page may send a POST anywhere; browsers add its Origin.
TEST(AdminAccess, WithoutAKeyProgramsOfTheHostMayPostAndPagesMayNot) {
  const AdminAccess access = listening_on("127.0.0.1:8001");
  RequestHead head = request(Method::Post, "127.0.0.1:8001");
  EXPECT_EQ(status(access, head), 0);
  head.has_origin = true;
  EXPECT_EQ(status(access, head), 403);
  head.method = Method::Get;
  EXPECT_EQ(status(access, head), 0) << "what is read stays with the browser";
  EXPECT_EQ(status(access, request(Method::Post, "evil.example")), 403);
  // Without a key no text is the key, the empty one neither.
  head = request(Method::Post, "evil.example");
  head.authorization = "Bearer ";
  EXPECT_EQ(status(access, head), 403);
}

}  // namespace
}  // namespace turnstile::gateway

// Edits of keys.toml as text, and the file that is replaced by them.
#include "gateway/keys/keys_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <string>

#include "gateway/whole_file.h"
#include "tests/support/key_entries.h"
#include "tests/support/temp_folder.h"

namespace turnstile::gateway {
namespace {

using namespace std::chrono_literals;

TEST(KeysFile, EditsKeepCommentsAndOtherKeys) {
  SeededRandom random(4);
  const std::string first =
      file_with(make_secret(random), "anna", "# anna's laptop\ninflight = 2\n");
  const auto two = with_key("# head\n" + first, entry_for(make_secret(random), "bert"));
  ASSERT_TRUE(two) << two.error();
  EXPECT_TRUE(two->starts_with("# head\n" + first));

  const auto revoked = with_revoked(*two, "anna", true);
  ASSERT_TRUE(revoked) << revoked.error();
  EXPECT_NE(revoked->find("# anna's laptop\ninflight = 2\n"), std::string::npos);
  const auto entries = read_keys(*revoked, "keys.toml");
  ASSERT_TRUE(entries);
  EXPECT_EQ((*entries)[0].state, KeyState::Revoked);
  EXPECT_EQ((*entries)[0].on_revoke, OnRevoke::Cancel);
  EXPECT_EQ((*entries)[1].state, KeyState::Active);
}

TEST(KeysFile, AKeyIsRevokedWhateverIsWrongElsewhere) {
  SeededRandom random(6);
  const std::string anna = file_with(make_secret(random), "anna");
  const std::string wrong = file_with(make_secret(random), "bert", "inflght = 1\n");
  const auto edited = with_revoked(anna + wrong, "anna", false);
  ASSERT_TRUE(edited) << edited.error();
  EXPECT_NE(edited->find(wrong), std::string::npos) << "what is wrong stays for its author";
  const KeysReading reading = read_legible_keys(*edited, "keys.toml");
  EXPECT_EQ(reading.errors.size(), 1U);
  EXPECT_EQ(reading.entries.at(0).state, KeyState::Revoked);
  EXPECT_TRUE(reading.entries.at(1).is_wrong);
  EXPECT_TRUE(with_revoked(wrong, "bert", true)) << "the wrong one itself";
  const auto unknown = with_revoked(wrong, "carl", false);
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().find("inflght"), std::string::npos) << unknown.error();
}

// Whichever of the two its author takes away, the key stays revoked.
TEST(KeysFile, AnIdThatStandsTwiceIsRevokedTwice) {
  SeededRandom random(11);
  const std::string first = file_with(make_secret(random), "anna", "# one\n");
  const std::string other = file_with(make_secret(random), "bert", "# other\n");
  const std::string second = file_with(make_secret(random), "anna", "disabled = false # two\n");
  const auto edited = with_revoked(first + other + second, "anna", true);
  ASSERT_TRUE(edited) << edited.error();
  const std::size_t from_other = edited->find("[[keys]]", 1);
  const std::size_t from_second = edited->find("[[keys]]", from_other + 1);
  EXPECT_EQ(edited->substr(from_other, from_second - from_other), other);
  for (const std::string& left : {edited->substr(0, from_second), edited->substr(from_other)}) {
    const auto entries = read_keys(left, "keys.toml");
    ASSERT_TRUE(entries) << to_string(entries.error().front());
    for (const KeyEntry& entry : *entries) {
      const bool is_anna = entry.node.id == "anna";
      EXPECT_EQ(entry.state, is_anna ? KeyState::Revoked : KeyState::Active) << left;
      EXPECT_EQ(entry.on_revoke, is_anna ? OnRevoke::Cancel : OnRevoke::Finish);
    }
  }
}

TEST(KeysFile, EditsThatCannotBeDoneSafelyChangeNothing) {
  SeededRandom random(5);
  const std::string file = file_with(make_secret(random), "anna");
  EXPECT_FALSE(with_key(file, entry_for(make_secret(random), "anna"))) << "an id twice";
  EXPECT_FALSE(with_revoked(file, "bert", false)) << "no such key";
  EXPECT_FALSE(with_revoked("[[keys]\n", "anna", false)) << "a broken file";
  // An inline table has no line of its own for `state`.
  const KeyEntry entry = entry_for(make_secret(random), "carl");
  const std::string inline_file = "keys = [{ id = \"carl\", team = \"lab\", public = \"" +
                                  entry.public_id + "\", hash = \"" + hash_text(entry.hash) +
                                  "\" }]\n";
  ASSERT_TRUE(read_keys(inline_file, "keys.toml"));
  EXPECT_FALSE(with_revoked(inline_file, "carl", false));
}

TEST(KeysFile, HoldsNoMoreKeysThanItMay) {
  std::string file;
  for (std::size_t i = 0; i < kMaxKeys; ++i) {
    std::string number = std::to_string(i);
    number.insert(0, 8 - number.size(), '0');
    file += "[[keys]]\nid = \"k" + number + "\"\npublic = \"" + number +
            "\"\nteam = \"lab\"\nhash = \"" + hash_text({}) + "\"\n";
  }
  SeededRandom random(9);
  const auto edited = with_key(file, entry_for(make_secret(random), "one-more"));
  ASSERT_FALSE(edited);
  EXPECT_TRUE(edited.error().starts_with("there are 10000 keys already")) << edited.error();
}

// A writer that was killed leaves its new file; what others put beside the key file stays.
TEST(WholeFile, TheNextReplacementTakesAwayWhatAKilledWriterLeft) {
  TempFolder folder;
  const auto old = std::filesystem::file_time_type::clock::now() - 1h;
  const auto leave = [&](const std::string& name, bool is_old) {
    folder.write(name, "left");
    if (is_old) std::filesystem::last_write_time(folder / name, old);
  };
  leave(".keys.toml.new-aB3xYz", true);
  leave(".keys.toml.new-000000", false);
  leave("keys.toml.backup", true);
  leave(".other.toml.new-aB3xYz", true);
  leave("precious", true);
  std::filesystem::create_symlink("precious", folder / ".keys.toml.new-linked");
  const timespec long_ago[2] = {};
  ASSERT_EQ(::utimensat(AT_FDCWD, (folder / ".keys.toml.new-linked").c_str(), long_ago,
                        AT_SYMLINK_NOFOLLOW),
            0);
  std::filesystem::create_directory(folder / ".keys.toml.new-folder");
  std::filesystem::last_write_time(folder / ".keys.toml.new-folder", old);
  ASSERT_TRUE(replace_file(folder / "keys.toml", "new", 0600));
  EXPECT_EQ(folder.read("keys.toml"), "new");
  std::set<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    left.insert(entry.path().filename().string());
  }
  EXPECT_EQ(left, (std::set<std::string>{"keys.toml", ".keys.toml.new-000000", "keys.toml.backup",
                                         ".other.toml.new-aB3xYz", "precious",
                                         ".keys.toml.new-linked", ".keys.toml.new-folder"}))
      << "a young one may be of somebody who writes just now";
}

// An access list, version 2: owner rw, user 34567 r, group r, mask r, others none.
constexpr unsigned char kList[] = {
    2, 0,    0,    0,    1,    0,    6,  0, 0xff, 0xff, 0xff, 0xff, 2,    0,   4,
    0, 0x07, 0x87, 0,    0,    4,    0,  4, 0,    0xff, 0xff, 0xff, 0xff, 16,  0,
    4, 0,    0xff, 0xff, 0xff, 0xff, 32, 0, 0,    0,    0xff, 0xff, 0xff, 0xff};

// A server that may read the old file may read the new one.
TEST(WholeFile, AReplacementHasTheRightsOfTheOldFile) {
  TempFolder folder;
  const auto file = folder.write("keys.toml", "old");
  ASSERT_EQ(::chmod(file.c_str(), 0640), 0);
  const bool may_give_away = ::chown(file.c_str(), 12'345, 23'456) == 0;  // as root
  constexpr char kName[] = "system.posix_acl_access";
  const bool has_list = ::setxattr(file.c_str(), kName, kList, sizeof kList, 0) == 0;
  ASSERT_TRUE(replace_file(file, "new", 0600));
  EXPECT_EQ(folder.read("keys.toml"), "new");
  struct stat status {};
  ASSERT_EQ(::stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0640U);
  if (may_give_away) {
    EXPECT_EQ(status.st_uid, 12'345U);
    EXPECT_EQ(status.st_gid, 23'456U);
  }
  unsigned char list[sizeof kList + 1] = {};
  if (has_list) {
    ASSERT_EQ(::getxattr(file.c_str(), kName, list, sizeof list),
              static_cast<ssize_t>(sizeof kList));
    EXPECT_TRUE(std::equal(std::begin(kList), std::end(kList), list));
  }
}

// A new file begins with the list that its folder gives, which would let others read a key file.
TEST(WholeFile, AReplacementTakesNoAccessListFromItsFolder) {
  TempFolder folder;
  const auto file = folder.write("keys.toml", "old");
  ASSERT_EQ(::chmod(file.c_str(), 0640), 0);
  if (::setxattr(folder.path().c_str(), "system.posix_acl_default", kList, sizeof kList, 0) != 0) {
    GTEST_SKIP() << "this file system has no access lists";
  }
  ASSERT_TRUE(replace_file(file, "new", 0600));
  EXPECT_EQ(::getxattr(file.c_str(), "system.posix_acl_access", nullptr, 0), -1);
  struct stat status {};
  ASSERT_EQ(::stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0640U);
}

TEST(WholeFile, WhoCannotKeepTheOwnerReplacesNothing) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a file of somebody else";
  TempFolder folder;
  const auto file = folder.write("keys.toml", "old");
  ASSERT_EQ(::chmod(folder.path().c_str(), 0777), 0);
  ASSERT_EQ(::chown(file.c_str(), 12'345, 23'456), 0);
  ASSERT_EQ(::seteuid(34'567), 0);
  const auto replaced = replace_file(file, "new", 0600);
  ASSERT_EQ(::seteuid(0), 0);
  ASSERT_FALSE(replaced);
  EXPECT_NE(replaced.error().find("user 12345 and group 23456"), std::string::npos)
      << replaced.error();
  EXPECT_EQ(folder.read("keys.toml"), "old");
  const std::filesystem::directory_iterator entries(folder.path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1) << "nothing is left beside it";
}

TEST(WholeFile, AReplacementThatIsNotCommittedChangesNothing) {
  TempFolder folder;
  const auto file = folder.write("keys.toml", "old");
  {
    const auto waiting = Replacement::prepare(file, "new", 0600);
    ASSERT_TRUE(waiting);
    EXPECT_EQ(folder.read("keys.toml"), "old");
  }
  EXPECT_EQ(folder.read("keys.toml"), "old");
  const std::filesystem::directory_iterator entries(folder.path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

}  // namespace
}  // namespace turnstile::gateway

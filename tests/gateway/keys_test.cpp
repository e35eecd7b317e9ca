#include "gateway/keys/keys.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "gateway/keys/key_secret.h"
#include "gateway/keys/keys_file.h"
#include "gateway/timestamp.h"
#include "gateway/whole_file.h"
#include "tests/support/key_entries.h"
#include "tests/support/manual_clock.h"
#include "tests/support/no_descriptors.h"
#include "tests/support/temp_folder.h"

namespace turnstile::gateway {
namespace {

using namespace std::chrono_literals;

struct KeyFolder {
  ManualClock clock;
  SeededRandom random{7};
  std::string secret = make_secret(random);

  tl::expected<Principal, AuthError> ask(const std::string& file, const std::string& header) {
    auto store = KeyStore::from_text(file, kPepper);
    EXPECT_TRUE(store) << (store ? "" : to_string(store.error().errors.front()));
    return store->authenticate(header, clock.wall());
  }
  AuthFailure failure(const std::string& file, const std::string& header) {
    const auto answer = ask(file, header);
    EXPECT_FALSE(answer);
    return answer ? AuthFailure::Missing : answer.error().why;
  }
};

TEST(KeyStore, TheRightSecretNamesItsKeyAndTeam) {
  KeyFolder f;
  const auto principal = f.ask(file_with(f.secret, "anna"), "Bearer " + f.secret);
  ASSERT_TRUE(principal);
  EXPECT_EQ(principal->key_id, "anna");
  EXPECT_EQ(principal->team, "lab");
  EXPECT_TRUE(f.ask(file_with(f.secret, "anna"), "bearer " + f.secret)) << "schemes ignore case";
}

TEST(KeyStore, EverythingElseIsMissingOrInvalid) {
  KeyFolder f;
  const std::string file = file_with(f.secret, "anna");
  const std::string other = make_secret(f.random);
  for (const std::string& header : std::vector<std::string>{"", "Bearer", "Basic abc", "Bearer\t" + f.secret}) {
    EXPECT_EQ(f.failure(file, header), AuthFailure::Missing) << header;
  }
  for (const std::string& header : std::vector<std::string>{
        "Bearer ", "Bearer  " + f.secret, "Bearer " + f.secret + " ",
        "Bearer " + other, "Bearer ' OR 1=1", "Bearer " + std::string(1 << 20, 'A'),
        "Bearer " + f.secret.substr(0, 49), "Bearer gw_\r\nX: y"}) {
    EXPECT_EQ(f.failure(file, header), AuthFailure::Invalid) << header.substr(0, 40);
  }
}

// The public id of a known key with another secret: found by id, refused by hash.
TEST(KeyStore, AKnownPublicIdWithAWrongSecretIsInvalid) {
  KeyFolder f;
  KeyEntry entry = entry_for(f.secret, "anna");
  const std::string other = make_secret(f.random);
  entry.public_id = *public_id_of(other);
  EXPECT_EQ(f.failure(*with_key("", entry), "Bearer " + other), AuthFailure::Invalid);
}

TEST(KeyStore, AnotherPepperOpensNothing) {
  KeyFolder f;
  const auto store = KeyStore::from_text(file_with(f.secret, "anna"), std::string(40, 'x'));
  ASSERT_TRUE(store);
  EXPECT_FALSE(store->authenticate("Bearer " + f.secret, f.clock.wall()));
}

TEST(KeyStore, DisabledRevokedAndExpiredAreToldOnlyToTheHolderOfTheSecret) {
  KeyFolder f;
  const std::string base = file_with(f.secret, "anna");
  const std::string header = "Bearer " + f.secret;
  EXPECT_EQ(f.failure(base + "disabled = true\n", header), AuthFailure::Disabled);
  EXPECT_EQ(f.failure(*with_revoked(base, "anna", false), header), AuthFailure::Disabled);
  EXPECT_EQ(f.failure(base + "expires = \"2026-01-01\"\n", header), AuthFailure::Expired);
  EXPECT_EQ(f.failure(base + "expires = 2025-12-31\n", header), AuthFailure::Expired);
  EXPECT_TRUE(f.ask(base + "expires = \"2026-01-02\"\n", header));
  const auto answer = f.ask(base + "disabled = true\n", header);
  EXPECT_EQ(answer.error().principal.key_id, "anna");
  EXPECT_EQ(f.failure(base + "disabled = true\n", header + "x"), AuthFailure::Invalid);
}

TEST(KeyStore, NodesCarryTheLimitsOfTheFile) {
  KeyFolder f;
  const std::string file = file_with(f.secret, "anna",
                                     "inflight = 2\nqueue_requests = 0\n"
                                     "requests_per_minute = \"2k\"\ntokens_per_minute = 5\n"
                                     "max_class = \"standard\"\ndefault_class = \"batch\"\n"
                                     "models = [\"chat\"]\nmax_input_tokens = 10\n"
                                     "max_output_tokens = 20\nweight = 3\n");
  const auto store = KeyStore::from_text(file, kPepper);
  ASSERT_TRUE(store) << to_string(store.error().errors.front());
  policy::KeyNode expected;
  expected.id = "anna";
  expected.team = "lab";
  expected.weight = 3;
  expected.inflight = 2;
  expected.queue_requests = 0;
  expected.requests_per_minute = 2'000;
  expected.tokens_per_minute = 5;
  expected.max_class = "standard";
  expected.default_class = "batch";
  expected.models = {"chat"};
  expected.max_input_tokens = 10;
  expected.max_output_tokens = 20;
  EXPECT_EQ(store->nodes(), std::vector{expected});
}

TEST(KeyStore, EachMistakeInTheFileIsNamedWithItsPlace) {
  SeededRandom random(3);
  const std::string secret = make_secret(random);
  const std::string base = file_with(secret, "anna");  // 7 lines
  const std::vector<std::pair<std::string, std::string>> table{
      {base + "inflght = 1\n",
       "keys.toml:7:1: error: inflght is not a field of a key; perhaps 'inflight' was meant."},
      {base + "inflight = -1\n", "keys.toml:7:12: error: inflight must be a whole number"},
      {base + "weight = 0\n", "keys.toml:7:10: error: weight must be a whole number"},
      {base + "tokens_per_day = 1\n", "keys.toml:7:1: error: tokens_per_day is not available"},
      {base + "expires = \"soon\"\n", "keys.toml:7:11: error: expires must be a date"},
      {base + "on_revoke = \"kill\"\n", "keys.toml:7:13: error: on_revoke must be finish or"},
      {base + "disabled = 1\n", "keys.toml:7:12: error: disabled must be true or false."},
      {base + "models = \"chat\"\n", "keys.toml:7:10: error: models must be a list"},
      {base + base, "keys.toml:7:1: error: id 'anna' is used in line 1 already"},
      {"[[keys]]\nid = \"a b\"\n", "keys.toml:1:1: error: this key has no team."},
      {"keys = 3\n", "keys.toml:1:8: error: keys must be written as [[keys]]."},
      {"[keyz]\n", "keys.toml:1:2: error: keyz is not known here"},
      {"[[keys\n", "keys.toml:1:"},
      {base + "[[\n", "keys.toml:7:3: error: a table header needs a name"},
  };
  for (const auto& [text, expected] : table) {
    const auto store = KeyStore::from_text(text, kPepper);
    ASSERT_FALSE(store) << text;
    const std::string first = to_string(store.error().errors.front());
    EXPECT_TRUE(first.starts_with(expected)) << first << "\nfor\n" << text;
    EXPECT_EQ(first.find(hash_text({})), std::string::npos);
  }
}

struct Files {
  TempFolder folder;
  Files(const std::string& keys) {
    folder.write("keys.toml", keys);
    create_file(folder / "pepper", std::string(kPepper) + "\n", 0600);
  }
  tl::expected<KeyStore, ConfigFailure> load() {
    return KeyStore::load(folder / "keys.toml", folder / "pepper");
  }
};

// The look that reads what the one before has seen to change.
KeyReload second_look(KeyStore& store) {
  EXPECT_EQ(store.reload_if_changed(), KeyReload::Unchanged);
  return store.reload_if_changed();
}

TEST(KeyStore, AChangedFileIsReadAgainAndABadOneChangesNothing) {
  KeyFolder f;
  Files files(file_with(f.secret, "anna"));
  auto store = files.load();
  ASSERT_TRUE(store) << to_string(store.error().errors.front());
  const std::string header = "Bearer " + f.secret;
  EXPECT_EQ(store->reload_if_changed(), KeyReload::Unchanged);
  EXPECT_FALSE(store->revoked("anna"));

  // As `keys revoke` does: a new inode, possibly the same size and second.
  const auto edited = with_revoked(files.folder.read("keys.toml"), "anna", false);
  ASSERT_TRUE(replace_file(files.folder / "keys.toml", *edited, 0600));
  EXPECT_EQ(second_look(*store), KeyReload::Applied);
  EXPECT_EQ(store->authenticate(header, f.clock.wall()).error().why, AuthFailure::Disabled);
  EXPECT_TRUE(store->nodes()[0].disabled);
  EXPECT_EQ(store->revoked("anna"), OnRevoke::Finish);
  EXPECT_EQ(store->reload_if_changed(), KeyReload::Unchanged);

  ASSERT_TRUE(replace_file(files.folder / "keys.toml", "[[keys", 0600));
  EXPECT_EQ(second_look(*store), KeyReload::Rejected);
  EXPECT_FALSE(store->reload_errors().empty());
  EXPECT_EQ(store->reload_if_changed(), KeyReload::Unchanged) << "reported once";
  EXPECT_EQ(store->size(), 1U) << "the keys read before stay";

  std::filesystem::remove(files.folder / "keys.toml");
  EXPECT_EQ(second_look(*store), KeyReload::Rejected);
  EXPECT_EQ(store->size(), 1U);

  const std::string other = file_with(make_secret(f.random), "bert");
  ASSERT_TRUE(replace_file(files.folder / "keys.toml", other, 0600));
  EXPECT_EQ(second_look(*store), KeyReload::Applied);
  EXPECT_EQ(store->revoked("anna"), OnRevoke::Finish) << "gone";
  EXPECT_TRUE(store->reload_errors().empty());
}

// As on a full disk, which takes the text away and leaves no room for the new one.
TEST(KeyStore, AFileWithoutAnyKeyClosesNobody) {
  KeyFolder f;
  const std::string text = file_with(f.secret, "anna");
  Files files(text);
  auto store = files.load();
  ASSERT_TRUE(store);
  for (const char* none : {"", "# only a comment\n", "keys = []\n"}) {
    files.folder.write("keys.toml", none);
    EXPECT_EQ(second_look(*store), KeyReload::Rejected) << none;
    EXPECT_EQ(store->reload_errors().size(), 1U);
    EXPECT_TRUE(store->authenticate("Bearer " + f.secret, f.clock.wall()));
    EXPECT_FALSE(store->revoked("anna"));
  }
  files.folder.write("keys.toml", *with_revoked(text, "anna", false));
  EXPECT_EQ(second_look(*store), KeyReload::Applied);
  EXPECT_TRUE(store->revoked("anna"));
  EXPECT_TRUE(KeyStore::from_text("", kPepper)) << "who has none to lose may start so";
}

// What hinders may pass without a trace in the file.
TEST(KeyStore, AChangedFileThatCannotBeReadIsReadOnceItCan) {
  KeyFolder f;
  const std::string text = file_with(f.secret, "anna");
  Files files(text);
  auto store = files.load();
  ASSERT_TRUE(store);
  ASSERT_TRUE(replace_file(files.folder / "keys.toml", *with_revoked(text, "anna", true), 0600));
  {
    const NoDescriptors strangers_have_them;
    EXPECT_EQ(second_look(*store), KeyReload::Rejected);
    EXPECT_NE(to_string(store->reload_errors().at(0)).find("Too many open files"),
              std::string::npos);
    EXPECT_EQ(store->reload_if_changed(), KeyReload::Unchanged) << "said once";
    EXPECT_EQ(store->reload_errors().size(), 1U) << "and shown until it is mended";
  }
  EXPECT_EQ(store->reload_if_changed(), KeyReload::Applied) << "the next look";
  EXPECT_EQ(store->revoked("anna"), OnRevoke::Cancel);
  EXPECT_TRUE(store->reload_errors().empty());
  EXPECT_EQ(store->reload_if_changed(), KeyReload::Unchanged);
}

TEST(KeyStore, AFileThatComesBackWhileItIsWrittenIsReadAtTheSecondLook) {
  KeyFolder f;
  const std::string text = file_with(f.secret, "anna");
  Files files(text);
  auto store = files.load();
  ASSERT_TRUE(store);
  std::filesystem::remove(files.folder / "keys.toml");
  EXPECT_EQ(second_look(*store), KeyReload::Rejected);
  files.folder.write("keys.toml", "[[keys");
  EXPECT_EQ(store->reload_if_changed(), KeyReload::Unchanged) << "half of it";
  files.folder.write("keys.toml", *with_revoked(text, "anna", false));
  EXPECT_EQ(store->reload_if_changed(), KeyReload::Applied);
  EXPECT_TRUE(store->revoked("anna"));
}

TEST(FileVersion, RightsAndOwnerAreAnotherVersion) {
  TempFolder folder;
  const auto file = folder.write("keys.toml", "x");
  const auto before = version_of(file);
  ASSERT_TRUE(before);
  EXPECT_EQ(version_of(file), before);
  // The clock of a file system may stand still for some milliseconds.
  for (int i = 0; i < 100'000 && version_of(file) == before; ++i) {
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }
  EXPECT_NE(version_of(file), before);
  EXPECT_EQ(version_of(file)->modified_ns, before->modified_ns);
  EXPECT_FALSE(version_of(folder / "nothing"));
}

// An editor that saves in place empties the file, or has written half of it, when the server looks.
TEST(KeyStore, AFileCaughtWhileItIsWrittenClosesAndOpensNoKey) {
  KeyFolder f;
  const std::string revoked_secret = make_secret(f.random);
  const std::string both =
      *with_key(file_with(f.secret, "anna"), entry_for(revoked_secret, "bert"));
  const std::string text = *with_revoked(both, "bert", false);
  const std::string_view revocation = "state = \"revoked\"";
  const std::size_t cut = text.find(revocation);
  ASSERT_NE(cut, std::string::npos);
  ASSERT_TRUE(read_keys(text.substr(0, cut), "keys.toml")) << "what bert's key was without it";
  const std::size_t in_a_table = text.find("hash", text.find("bert"));
  Files files(text);
  auto store = files.load();
  ASSERT_TRUE(store);
  const auto expect_as_before = [&] {
    EXPECT_TRUE(store->authenticate("Bearer " + f.secret, f.clock.wall()));
    EXPECT_FALSE(store->revoked("anna"));
    EXPECT_EQ(store->authenticate("Bearer " + revoked_secret, f.clock.wall()).error().why,
              AuthFailure::Disabled);
  };
  std::string done = text;
  for (const std::string& caught : {std::string(), std::string("\n"), text.substr(0, cut),
                                    text.substr(0, in_a_table), std::string("[[keys")}) {
    files.folder.write("keys.toml", caught);
    EXPECT_EQ(store->reload_if_changed(), KeyReload::Unchanged);
    expect_as_before();
    files.folder.write("keys.toml", done += "# another size, so another file\n");
    EXPECT_EQ(store->reload_if_changed(), KeyReload::Applied);
    expect_as_before();
  }
  // What stays is meant, if there is a key in it, and a revocation waits for nothing more than that
  // second look, however often the file changes meanwhile.
  files.folder.write("keys.toml", text.substr(0, text.find("\n[[keys]]", 1) + 1));
  EXPECT_EQ(second_look(*store), KeyReload::Applied);
  EXPECT_EQ(store->size(), 1U);
  files.folder.write("keys.toml", text);
  EXPECT_EQ(store->reload_if_changed(), KeyReload::Unchanged);
  files.folder.write("keys.toml", *with_revoked(text, "anna", false));
  EXPECT_EQ(store->reload_if_changed(), KeyReload::Applied);
  EXPECT_EQ(store->revoked("anna"), OnRevoke::Finish);
}

// A mistake closes the key that it is made at; what else the same edit says takes effect.
TEST(KeyStore, AMistakeInOneEntryClosesThatKeyAndNoOther) {
  KeyFolder f;
  const std::string secrets[] = {make_secret(f.random), make_secret(f.random), f.secret};
  const auto file_of = [&](const std::string& wrong) {  // bert's entry is `wrong`
    return *with_revoked(file_with(secrets[0], "anna"), "anna", true) + wrong +
           *with_key("", entry_for(secrets[2], "carl"));
  };
  const std::string bert = file_with(secrets[1], "bert");
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = bert;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  const std::string good =
      file_with(secrets[0], "anna") + bert + *with_key("", entry_for(secrets[2], "carl"));
  for (const std::string& wrong :
       {replaced("\"active\"", "\"revokd\""), replaced("hmac-sha256:", "hmac-sha256:zz"),
        replaced("team = \"lab\"\n", ""), replaced("\"lab\"", "3"),
        replaced("\"lab\"", "\"" + std::string(70'000, 'x') + "\""),
        replaced("\"bert\"", "\"" + std::string(70'000, 'x') + "\""), bert + "foo = 1\n",
        bert + "expires = \"soon\"\n", bert + file_with(make_secret(f.random), "bert"),
        replaced("id = \"bert\"\n", ""), std::string("[[key]]\nid = \"bert\"\n")}) {
    Files files(good);
    auto store = files.load();
    ASSERT_TRUE(store) << to_string(store.error().errors.front());
    const auto ask = [&](const std::string& secret) {
      return store->authenticate("Bearer " + secret, f.clock.wall());
    };
    EXPECT_TRUE(ask(secrets[0]) && ask(secrets[1]) && ask(secrets[2]));
    ASSERT_TRUE(replace_file(files.folder / "keys.toml", file_of(wrong), 0600));
    EXPECT_EQ(second_look(*store), KeyReload::Partial) << wrong.substr(0, 400);
    EXPECT_FALSE(store->reload_errors().empty());
    EXPECT_EQ(ask(secrets[0]).error().why, AuthFailure::Disabled) << "revoked in the same file";
    EXPECT_EQ(store->revoked("anna"), OnRevoke::Cancel);
    EXPECT_FALSE(ask(secrets[1])) << "the wrong one\n" << wrong.substr(0, 400);
    EXPECT_TRUE(store->revoked("bert"));
    EXPECT_TRUE(ask(secrets[2])) << "the others are served";
    for (const policy::KeyNode& node : store->nodes()) {
      EXPECT_EQ(node.disabled, node.id != "carl") << node.id;
      EXPECT_TRUE(is_good_name(node.id)) << "names stand in every record";
      EXPECT_TRUE(node.team.empty() || is_good_name(node.team));
    }
    EXPECT_FALSE(KeyStore::from_text(file_of(wrong), kPepper)) << "a start refuses it";

    ASSERT_TRUE(replace_file(files.folder / "keys.toml", good, 0600));
    EXPECT_EQ(second_look(*store), KeyReload::Applied);
    EXPECT_TRUE(store->reload_errors().empty());
    EXPECT_TRUE(ask(secrets[1])) << "mended";
  }
}

// What a connection remembers of its key saves the hash, never a check.
TEST(KeyStore, AKeyThatTheConnectionHasShownIsCheckedLikeANewOne) {
  KeyFolder f;
  const std::string other = make_secret(f.random);
  std::string keys = file_with(f.secret, "anna");
  keys = *with_key(keys, entry_for(other, "bert"));
  Files files(keys);
  auto store = files.load();
  ASSERT_TRUE(store);
  KnownKey known;
  const auto ask = [&](const std::string& secret) {
    return store->authenticate("Bearer " + secret, f.clock.wall(), known);
  };
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(ask(f.secret));
    EXPECT_EQ(ask(f.secret)->key_id, "anna");
    EXPECT_EQ(ask(other)->key_id, "bert") << "another key on the same connection";
  }
  ASSERT_TRUE(ask(f.secret));
  std::string wrong = f.secret;
  wrong.back() = wrong.back() == '0' ? '1' : '0';
  EXPECT_EQ(ask(wrong).error().why, AuthFailure::Invalid);
  EXPECT_EQ(ask(f.secret.substr(0, 49)).error().why, AuthFailure::Invalid);
  EXPECT_EQ(store->authenticate("", f.clock.wall(), known).error().why, AuthFailure::Missing);

  // The entries move, and one of them is revoked.
  ASSERT_TRUE(ask(other));
  const auto more = with_key(file_with(other, "bert"), entry_for(make_secret(f.random), "carl"));
  const auto edited = with_revoked(*more, "bert", false);
  ASSERT_TRUE(replace_file(files.folder / "keys.toml", *edited, 0600));
  ASSERT_EQ(second_look(*store), KeyReload::Applied);
  EXPECT_EQ(ask(other).error().why, AuthFailure::Disabled);
  EXPECT_EQ(ask(f.secret).error().why, AuthFailure::Invalid) << "no longer listed";
}

TEST(KeyStore, AKnownKeyExpiresWhileItsConnectionIsOpen) {
  KeyFolder f;
  KeyEntry entry = entry_for(f.secret, "anna");
  entry.expires = f.clock.wall() + 10s;
  auto store = KeyStore::from_text(*with_key("", entry), kPepper);
  ASSERT_TRUE(store);
  KnownKey known;
  const std::string header = "Bearer " + f.secret;
  EXPECT_TRUE(store->authenticate(header, f.clock.wall(), known));
  f.clock.advance(11s);
  EXPECT_EQ(store->authenticate(header, f.clock.wall(), known).error().why, AuthFailure::Expired);
}

TEST(KeyStore, MissingFilesAndAnOpenPepperAreTheEnvironmentsFault) {
  KeyFolder f;
  Files files(file_with(f.secret, "anna"));
  std::filesystem::permissions(files.folder / "pepper", std::filesystem::perms::others_read,
                               std::filesystem::perm_options::add);
  auto open_pepper = files.load();
  ASSERT_FALSE(open_pepper);
  EXPECT_TRUE(open_pepper.error().is_environment);
  EXPECT_NE(to_string(open_pepper.error().errors[0]).find("chmod 600"), std::string::npos);

  std::filesystem::remove(files.folder / "pepper");
  EXPECT_TRUE(files.load().error().is_environment);
  create_file(files.folder / "pepper", std::string(kPepper), 0600);
  std::filesystem::remove(files.folder / "keys.toml");
  auto no_keys = files.load();
  ASSERT_FALSE(no_keys);
  EXPECT_TRUE(no_keys.error().is_environment);
  EXPECT_NE(to_string(no_keys.error().errors[0]).find("turnstile init"), std::string::npos);
}

}  // namespace
}  // namespace turnstile::gateway

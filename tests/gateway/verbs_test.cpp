// The verbs as functions, in a folder of their own: what a person does on the first day.
#include "gateway/verbs/run.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <string>

#include "gateway/config/config_values.h"
#include "gateway/keys/keys.h"
#include "gateway/records/audit.h"
#include "tests/support/manual_clock.h"
#include "tests/support/one_of_many.h"
#include "tests/support/temp_folder.h"

namespace turnstile::gateway {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

struct Person {
  TempFolder folder;
  ManualClock clock;
  SeededRandom random{11};
  std::string out;
  std::string err;

  template <typename Options>
  ExitCode run(const Options& options) {
    std::ostringstream out_stream;
    std::ostringstream err_stream;
    const ExitCode code = turnstile::gateway::run(options, {out_stream, err_stream, clock, random});
    out = out_stream.str();
    err = err_stream.str();
    return code;
  }
  fs::path home() const { return folder / "home"; }
  fs::path config() const { return home() / "turnstile.toml"; }
  ExitCode init() { return run(InitOptions{home(), {}}); }
  ExitCode create(const std::string& id, const std::string& team = "lab") {
    return run(KeysCreateOptions{config(), team, id, {}, {}});
  }
  // The secret on standard output, which must be its only line.
  std::string secret() const {
    EXPECT_EQ(out.size(), 51U) << out;
    EXPECT_TRUE(out.starts_with("gw_"));
    return out.substr(0, out.size() - 1);
  }
  tl::expected<Principal, AuthError> ask(const std::string& secret) {
    const auto store = KeyStore::load(home() / "keys.toml", home() / "pepper");
    EXPECT_TRUE(store);
    return store->authenticate("Bearer " + secret, clock.wall());
  }
};

TEST(Init, WritesFilesThatWorkTogether) {
  Person person;
  ASSERT_EQ(person.init(), ExitCode::Done) << person.err;
  const std::string secret = person.secret();
  const auto principal = person.ask(secret);
  ASSERT_TRUE(principal);
  EXPECT_EQ(principal->team, "lab");
  EXPECT_EQ(person.err.find(secret), std::string::npos) << "the secret is shown once";

  const auto config = load_config(person.config(), {});
  ASSERT_TRUE(config) << to_string(config.error().errors.front());
  EXPECT_TRUE(config->models.empty());
  EXPECT_EQ(config->server.admin_key_file, person.home() / "admin.key");
  EXPECT_EQ(person.run(PolicyCheckOptions{person.home() / "policies.toml"}), ExitCode::Done)
      << person.err;
  for (const char* name : {"pepper", "admin.key", "keys.toml"}) {
    struct stat status {};
    ASSERT_EQ(::stat((person.home() / name).c_str(), &status), 0) << name;
    EXPECT_EQ(status.st_mode & 0777U, 0600U) << name;
  }
  for (const auto& entry : fs::directory_iterator(person.home())) {
    const std::string text = person.folder.read("home/" + entry.path().filename().string());
    EXPECT_EQ(text.find(secret), std::string::npos) << entry.path() << " holds the secret";
  }
}

TEST(Init, NamesTheModelAndRefusesOneThatIsNotThere) {
  Person person;
  const fs::path model = person.folder.write("tiny \"q\".gguf", "x");
  ASSERT_EQ(person.run(InitOptions{person.home(), model}), ExitCode::Done) << person.err;
  const auto config = load_config(person.config(), {});
  ASSERT_TRUE(config) << to_string(config.error().errors.front());
  EXPECT_EQ(config->models.at(0).path, model);

  EXPECT_EQ(person.run(InitOptions{person.folder / "other", person.folder / "no.gguf"}),
            ExitCode::Environment);
  EXPECT_TRUE(person.err.starts_with("--model: "));
  EXPECT_FALSE(fs::exists(person.folder / "other"));
}

// A file's stem is the name of its model unless that would be longer than a name may be.
TEST(Init, AFileWhoseNameIsTooLongForAModelIsCalledModel) {
  Person person;
  for (const std::size_t length : {std::size_t{kMaxModelNameBytes}, kMaxModelNameBytes + 1}) {
    const std::string stem(length, 'm');
    const fs::path home = person.folder / std::to_string(length);
    const fs::path model = person.folder.write(stem + ".gguf", "x");
    ASSERT_EQ(person.run(InitOptions{home, model}), ExitCode::Done) << person.err;
    const auto config = load_config(home / "turnstile.toml", {});
    ASSERT_TRUE(config) << to_string(config.error().errors.front());
    EXPECT_EQ(config->models.at(0).name, length > kMaxModelNameBytes ? "model" : stem);
  }
}

TEST(Init, OverwritesNothing) {
  for (const char* name : {"turnstile.toml", "policies.toml", "keys.toml", "pepper", "admin.key"}) {
    Person person;
    fs::create_directory(person.home());
    person.folder.write("home/" + std::string(name), "mine");
    EXPECT_EQ(person.init(), ExitCode::No);
    EXPECT_EQ(person.out, "");
    EXPECT_NE(person.err.find(name), std::string::npos) << person.err;
    EXPECT_EQ(person.folder.read("home/" + std::string(name)), "mine");
    EXPECT_EQ(std::distance(fs::directory_iterator(person.home()), fs::directory_iterator()), 1);
  }
}

TEST(Init, APathThatCannotStandInAFileIsRefused) {
  Person person;
  for (const char* name : {"a\nb.gguf", "a\x1b[2J.gguf", "a\xff.gguf"}) {
    const fs::path model = person.folder.write(name, "GGUF");
    EXPECT_EQ(person.run(InitOptions{person.home(), model}), ExitCode::Environment);
    EXPECT_EQ(person.err.substr(0, 8), "--model:") << person.err;
    EXPECT_FALSE(fs::exists(person.home()));
  }
}

TEST(KeysVerbs, ACreatedKeyWorksUntilItIsRevoked) {
  Person person;
  person.init();
  ASSERT_EQ(person.create("anna"), ExitCode::Done) << person.err;
  const std::string secret = person.secret();
  EXPECT_TRUE(person.ask(secret));

  ASSERT_EQ(person.run(KeysListOptions{person.config()}), ExitCode::Done);
  EXPECT_NE(person.out.find("anna"), std::string::npos);
  EXPECT_NE(person.out.find("gw_" + secret.substr(3, 8)), std::string::npos);
  EXPECT_EQ(person.out.find(secret), std::string::npos);
  EXPECT_NE(person.out.find("2026-06-30"), std::string::npos) << "180 days\n" << person.out;

  ASSERT_EQ(person.run(KeysRevokeOptions{person.config(), "anna", true}), ExitCode::Done);
  EXPECT_EQ(person.ask(secret).error().why, AuthFailure::Disabled);
  person.run(KeysListOptions{person.config()});
  EXPECT_NE(person.out.find("revoked"), std::string::npos);
}

// A stream that takes nothing, as a full disk.
struct FullDisk : std::streambuf {};

TEST(KeysVerbs, AKeyWhoseSecretNobodyGotIsNotMade) {
  Person person;
  ASSERT_EQ(person.init(), ExitCode::Done);
  const std::string before = person.folder.read("home/keys.toml");
  FullDisk disk;
  std::ostream full(&disk);
  std::ostringstream err;
  const Surroundings around{full, err, person.clock, person.random};
  EXPECT_EQ(run(KeysCreateOptions{person.config(), "lab", "lost", {}, {}}, around),
            ExitCode::Environment);
  EXPECT_NE(err.str().find("it was not made"), std::string::npos) << err.str();
  EXPECT_EQ(person.folder.read("home/keys.toml"), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(person.home()), fs::directory_iterator()), 5)
      << "nothing is left beside it";
}

TEST(Init, AKeyThatNobodyGotLeavesNoFiles) {
  Person person;
  FullDisk disk;
  std::ostream full(&disk);
  std::ostringstream err;
  EXPECT_EQ(run(InitOptions{person.home(), {}}, {full, err, person.clock, person.random}),
            ExitCode::Environment);
  EXPECT_NE(err.str().find("no files were made"), std::string::npos) << err.str();
  EXPECT_TRUE(fs::is_empty(person.home()));
  EXPECT_EQ(person.init(), ExitCode::Done) << "and it can be done again";
}

TEST(Verbs, AnAnswerThatCannotBeWrittenIsTheEnvironmentsFault) {
  Person person;
  ASSERT_EQ(person.init(), ExitCode::Done);
  for (const Command& command :
       {Command(KeysListOptions{person.config()}), Command(VersionOptions{}),
        Command(PolicyCheckOptions{person.home() / "policies.toml"})}) {
    FullDisk disk;
    std::ostream full(&disk);
    std::ostringstream err;
    EXPECT_EQ(run(command, {full, err, person.clock, person.random}), ExitCode::Environment);
    EXPECT_NE(err.str().find("Standard output"), std::string::npos) << err.str();
    std::ostringstream out;
    EXPECT_EQ(run(command, {out, err, person.clock, person.random}), ExitCode::Done) << err.str();
  }
}

TEST(KeysVerbs, ALinkedKeyFileIsEditedWhereItLies) {
  Person person;
  ASSERT_EQ(person.init(), ExitCode::Done);
  const fs::path linked = person.home() / "keys.toml";
  const fs::path real = person.folder / "deployed.toml";
  fs::rename(linked, real);
  fs::create_symlink("../deployed.toml", linked);
  ASSERT_EQ(person.create("anna"), ExitCode::Done) << person.err;
  const std::string secret = person.secret();
  ASSERT_EQ(person.run(KeysRevokeOptions{person.config(), "anna", false}), ExitCode::Done);
  EXPECT_TRUE(fs::is_symlink(linked));
  EXPECT_NE(person.folder.read("deployed.toml").find("revoked"), std::string::npos);
  EXPECT_EQ(person.ask(secret).error().why, AuthFailure::Disabled);
}

TEST(KeysVerbs, AKeyThatThePolicyDoesNotUnderstandIsListedAsWrong) {
  Person person;
  ASSERT_EQ(person.init(), ExitCode::Done);
  ASSERT_EQ(person.create("anna"), ExitCode::Done);
  const std::string text = person.folder.read("home/keys.toml");
  for (const char* wrong : {"max_class = \"nope\"\n", "default_class = \"nope\"\n"}) {
    person.folder.write("home/keys.toml", text + wrong);
    EXPECT_EQ(person.run(KeysListOptions{person.config()}), ExitCode::No);
    EXPECT_NE(person.out.find("wrong"), std::string::npos) << person.out;
    EXPECT_NE(person.err.find("key 'anna' is closed: "), std::string::npos) << person.err;
    ASSERT_EQ(person.run(KeysRevokeOptions{person.config(), "anna", false}), ExitCode::Done);
    EXPECT_EQ(person.run(KeysListOptions{person.config()}), ExitCode::Done) << "closed anyhow\n"
                                                                            << person.err;
  }
}

TEST(KeysVerbs, WhatIsNoNameOfAKeyIsRefusedAndShownPlainly) {
  Person person;
  ASSERT_EQ(person.init(), ExitCode::Done);
  for (const char* id : {"--help", "-a", "", "a b", "\x1b[2J"}) {
    EXPECT_EQ(person.create(id), ExitCode::WrongUsage) << id;
    EXPECT_EQ(person.out, "");
  }
  const std::string clears = "x\x1b[2J";
  EXPECT_EQ(person.create("anna", clears), ExitCode::No);
  EXPECT_EQ(person.err.find('\x1b'), std::string::npos) << person.err;
  EXPECT_EQ(person.run(KeysRevokeOptions{person.config(), clears, false}), ExitCode::No);
  EXPECT_EQ(person.err.find('\x1b'), std::string::npos) << person.err;
  const fs::path nowhere = person.folder / clears;
  EXPECT_NE(person.run(KeysListOptions{nowhere}), ExitCode::Done);
  EXPECT_EQ(person.err.find('\x1b'), std::string::npos) << person.err;
  EXPECT_NE(person.run(PolicyCheckOptions{nowhere}), ExitCode::Done);
  EXPECT_EQ(person.err.find('\x1b'), std::string::npos) << person.err;
  EXPECT_NE(person.run(AuditVerifyOptions{nowhere}), ExitCode::Done);
  EXPECT_EQ(person.err.find('\x1b'), std::string::npos) << person.err;
  EXPECT_NE(person.run(ModelInfoOptions{nowhere, {}}), ExitCode::Done);
  EXPECT_EQ(person.err.find('\x1b'), std::string::npos) << person.err;
  EXPECT_NE(person.run(InitOptions{person.folder / "new", nowhere}), ExitCode::Done);
  EXPECT_EQ(person.err.find('\x1b'), std::string::npos) << person.err;
}

TEST(KeysVerbs, APublicPartThatNoKeyCanHaveIsAMistakeAndNotShown) {
  Person person;
  ASSERT_EQ(person.init(), ExitCode::Done);
  std::string text = person.folder.read("home/keys.toml");
  const std::string name = "public = \"";
  const std::size_t at = text.find(name) + name.size();
  for (const char* eight : {"\\u001b[2Jabcd", "\\u202eabcde", "a b c d ", "abcd_efg"}) {
    std::string wrong = text;
    wrong.replace(at, 8, eight);
    person.folder.write("home/keys.toml", wrong);
    EXPECT_EQ(person.run(KeysListOptions{person.config()}), ExitCode::No) << eight;
    EXPECT_EQ(person.out.find('\x1b'), std::string::npos);
    EXPECT_EQ(person.out.find("\xe2\x80\xae"), std::string::npos);
    EXPECT_NE(person.err.find("public must be"), std::string::npos) << person.err;
  }
}

TEST(KeysVerbs, ExpiryIsADateOrNever) {
  Person person;
  person.init();
  ASSERT_EQ(person.run(KeysCreateOptions{person.config(), "lab", "a", {}, "2026-01-02"}),
            ExitCode::Done);
  const std::string secret = person.secret();
  EXPECT_TRUE(person.ask(secret));
  person.clock.advance(24h);
  EXPECT_EQ(person.ask(secret).error().why, AuthFailure::Expired);
  EXPECT_EQ(person.run(KeysCreateOptions{person.config(), "lab", "b", {}, "never"}),
            ExitCode::Done);
  for (const char* wrong : {"soon", "2025-12-31"}) {
    EXPECT_EQ(person.run(KeysCreateOptions{person.config(), "lab", "c", {}, wrong}),
              ExitCode::WrongUsage) << wrong;
  }
  ASSERT_EQ(person.run(KeysCreateOptions{person.config(), "lab", "d", {}, "9999-12-31"}),
            ExitCode::Done);
  EXPECT_TRUE(person.ask(person.secret()));
}

TEST(KeysVerbs, MistakesAreNamedAndChangeNothing) {
  Person person;
  person.init();
  const std::string before = person.folder.read("home/keys.toml");
  EXPECT_EQ(person.create("anna", "lap"), ExitCode::No);
  EXPECT_NE(person.err.find("no team 'lap'; perhaps 'lab' was meant."), std::string::npos)
      << person.err;
  EXPECT_EQ(person.create("first"), ExitCode::No) << "the id of the key of init";
  EXPECT_EQ(person.create("a b"), ExitCode::WrongUsage);
  EXPECT_EQ(person.run(KeysCreateOptions{person.config(), "lab", "x", "interactve", {}}),
            ExitCode::No);
  EXPECT_NE(person.err.find("perhaps 'interactive' was meant"), std::string::npos) << person.err;
  EXPECT_EQ(person.run(KeysRevokeOptions{person.config(), "nobody", false}), ExitCode::No);
  EXPECT_EQ(person.folder.read("home/keys.toml"), before);
  EXPECT_EQ(person.out, "");

  fs::remove(person.home() / "keys.toml");
  EXPECT_EQ(person.create("anna"), ExitCode::Environment);
  EXPECT_NE(person.err.find("turnstile init"), std::string::npos) << person.err;
  EXPECT_EQ(person.run(KeysListOptions{person.folder / "none.toml"}), ExitCode::Environment);
}

// Without it two edits at once could lose one another.
TEST(KeysVerbs, AFolderThatCannotBeLockedIsNotEdited) {
  Person person;
  ASSERT_EQ(person.init(), ExitCode::Done) << person.err;
  const fs::perms all = fs::perms::all;
  fs::permissions(person.folder.path(), all);
  for (const char* name : {".", "keys.toml", "pepper"}) {
    ASSERT_TRUE(::geteuid() != 0 || ::chown((person.home() / name).c_str(), 65'534, 65'534) == 0);
  }
  fs::permissions(person.home(), fs::perms::owner_write | fs::perms::owner_exec);
  const std::string before = person.folder.read("home/keys.toml");
  {
    const OneOfMany rights;
    EXPECT_EQ(person.create("anna"), ExitCode::Environment);
    EXPECT_NE(person.err.find("the folder cannot be opened: Permission denied"), std::string::npos)
        << person.err;
    EXPECT_EQ(person.run(KeysRevokeOptions{person.config(), "first", false}),
              ExitCode::Environment);
  }
  fs::permissions(person.home(), all);
  EXPECT_EQ(person.folder.read("home/keys.toml"), before);
}

TEST(PolicyCheck, ReportsEveryErrorWithItsPlace) {
  Person person;
  const fs::path file = person.folder.write(
      "p.toml", "schema = 1\n[teams.lab]\ndept = \"nope\"\nwieght = 2\n");
  EXPECT_EQ(person.run(PolicyCheckOptions{file}), ExitCode::No);
  EXPECT_NE(person.err.find("p.toml:3:"), std::string::npos) << person.err;
  EXPECT_NE(person.err.find("p.toml:4:"), std::string::npos) << person.err;
  EXPECT_NE(person.err.find(": error: "), std::string::npos) << person.err;
  EXPECT_EQ(person.run(PolicyCheckOptions{person.folder / "none"}), ExitCode::Environment);
}

TEST(AuditVerbs, VerifyAndShowReadWhatWasWritten) {
  Person person;
  person.init();
  const fs::path state = person.home() / "state";
  EXPECT_EQ(person.run(AuditVerifyOptions{state}), ExitCode::Environment);
  EXPECT_EQ(person.run(AuditShowOptions{person.config(), {}, {}, {}, {}}), ExitCode::Environment);
  {
    auto writer = LineWriter::open({state});
    AuditLog audit(person.clock, **writer, {});
    RequestRecord record;
    record.request_id = "r1";
    record.team = "lab";
    record.key_id = "first";
    record.outcome = RequestOutcome::Refused;
    record.code = "queue_full";
    audit.refused(record);
    person.clock.advance(1h);
    record.request_id = "r2";
    record.team = "teaching";
    record.code = "rate_requests";
    audit.refused(record);
    audit.close();
  }
  EXPECT_EQ(person.run(AuditVerifyOptions{state}), ExitCode::Done) << person.err;
  EXPECT_NE(person.out.find("3 records in 1 files, seq 1 to 3"), std::string::npos) << person.out;
  EXPECT_NE(person.out.find("the chain is whole"), std::string::npos);

  const auto shown = [&](AuditShowOptions options) {
    options.config = person.config();
    EXPECT_EQ(person.run(options), ExitCode::Done) << person.err;
    return std::pair(person.out.find("\"r1\"") != std::string::npos,
                     person.out.find("\"r2\"") != std::string::npos);
  };
  EXPECT_EQ(shown({}), std::pair(true, true));
  EXPECT_EQ(shown({.request = "r1"}), std::pair(true, false));
  EXPECT_EQ(shown({.team = "teaching"}), std::pair(false, true));
  EXPECT_EQ(shown({.code = "queue_full"}), std::pair(true, false));
  EXPECT_EQ(shown({.from = "30m"}), std::pair(false, true));
  EXPECT_EQ(shown({.from = "2026-01-01"}), std::pair(true, true));
  EXPECT_EQ(shown({.request = "r1", .code = "rate_requests"}), std::pair(false, false));
  EXPECT_EQ(person.run(AuditShowOptions{.config = person.config(), .from = "yesterday"}),
            ExitCode::WrongUsage);

  std::string text = person.folder.read("home/state/audit/audit-000001.jsonl");
  text.replace(text.find("queue_full"), 10, "queue_fulI");
  person.folder.write("home/state/audit/audit-000001.jsonl", text);
  EXPECT_EQ(person.run(AuditVerifyOptions{state}), ExitCode::No);
  EXPECT_NE(person.err.find("audit-000001.jsonl:1: record 1 was changed"), std::string::npos);
}

TEST(ServeCheck, NamesWhatIsMissingAndTheRemedy) {
  Person person;
  const fs::path model = person.folder.write("bad.gguf", "GGUFx");
  person.init();
  EXPECT_EQ(person.run(ServeOptions{person.config(), true, {}}), ExitCode::Environment);
  EXPECT_NE(person.err.find("turnstile serve MODEL"), std::string::npos) << person.err;

  const CommandLineOverrides with_model{{"MODEL", "models.path", model.string()}};
  EXPECT_EQ(person.run(ServeOptions{person.config(), true, with_model}), ExitCode::Environment);
  EXPECT_NE(person.err.find("bad.gguf"), std::string::npos) << person.err;

  fs::remove(person.home() / "keys.toml");
  EXPECT_EQ(person.run(ServeOptions{person.config(), true, with_model}), ExitCode::Environment);
  EXPECT_NE(person.err.find("turnstile init"), std::string::npos) << person.err;

  person.folder.write("home/policies.toml", "schema = 1\nnope = 2\n");
  EXPECT_EQ(person.run(ServeOptions{person.config(), true, with_model}), ExitCode::No);
  EXPECT_NE(person.err.find("policies.toml:2:"), std::string::npos) << person.err;

  person.folder.write("home/turnstile.toml", "[audit]\nmode = \"group\"\n");
  EXPECT_EQ(person.run(ServeOptions{person.config(), true, with_model}), ExitCode::No);
  EXPECT_NE(person.err.find("is not available in this build"), std::string::npos) << person.err;
}

TEST(Version, SaysWhatTheBinaryIs) {
  Person person;
  EXPECT_EQ(person.run(VersionOptions{}), ExitCode::Done);
  EXPECT_TRUE(person.out.starts_with("turnstile ")) << person.out;
  for (const char* part : {"\ncommit ", "\ncompiler ", "\ninstruction set ", "\nCUDA none"}) {
    EXPECT_NE(person.out.find(part), std::string::npos) << part;
  }
}

}  // namespace
}  // namespace turnstile::gateway

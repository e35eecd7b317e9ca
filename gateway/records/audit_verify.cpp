#include "gateway/records/audit_verify.h"

#include <fstream>
#include <string_view>
#include <utility>

#include "gateway/records/audit_folder.h"
#include "gateway/records/audit_line.h"
#include "gateway/records/sha256.h"

namespace turnstile::gateway {
namespace {

namespace fs = std::filesystem;

class Verifier {
 public:
  tl::expected<AuditReport, std::string> run(const fs::path& folder) {
    const std::vector<AuditFileName> files = list_audit_files(folder);
    if (files.empty()) {
      return tl::unexpected(folder.string() +
                            ": there is no audit log here; name the audit folder or a state_dir.");
    }
    std::uint64_t expected_number = 1;
    for (const AuditFileName& file : files) {
      path_ = file.path;
      line_ = 0;
      if (file.number != expected_number) report_missing_files(expected_number, file.number);
      expected_number = file.number + 1;
      if (!read_file(&file == &files.back())) {
        return tl::unexpected(file.path.string() + ": the file cannot be read.");
      }
    }
    report_.files = files.size();
    report_.head = prev_;
    return std::move(report_);
  }

 private:
  void fail(std::string what) {
    if (report_.problems.size() < kMaxAuditProblems) {
      report_.problems.push_back({path_, line_, std::move(what)});
    }
  }

  void report_missing_files(std::uint64_t expected, std::uint64_t found) {
    const std::uint64_t last = found - 1;
    fail("missing before it: audit file " + std::to_string(expected) +
         (last > expected ? " to " + std::to_string(last) : "") + ".");
  }

  bool read_file(bool is_last) {
    std::ifstream stream(path_, std::ios::binary);
    if (!stream.is_open()) return false;
    std::string line;
    while (std::getline(stream, line)) {
      ++line_;
      if (!stream.eof()) {
        check(line);
      } else if (is_last) {
        report_.notes.push_back({path_, line_,
                                 "the last line is incomplete (" + std::to_string(line.size()) +
                                     " bytes), as after a crash; the next start moves it aside."});
      } else {
        fail("the line is incomplete, and another file follows.");
      }
    }
    return !stream.bad();
  }

  void check(std::string_view line) {
    const auto parts = take_apart(line);
    if (!parts) {
      fail("not an audit record: the line was changed, or does not belong here.");
      // What stood here is not known, so the next line cannot be held against it.
      is_after_damage_ = true;
      return;
    }
    const bool is_unchanged = hex_text(sha256_.digest(parts->hashed)) == parts->hash;
    if (!is_unchanged) {
      fail("record " + std::to_string(parts->seq) + " was changed: its hash does not fit.");
    } else if (!is_after_damage_) {
      check_order(*parts);
    }
    if (report_.records == 0) report_.first_seq = parts->seq;
    ++report_.records;
    report_.last_seq = parts->seq;
    prev_ = parts->hash;
    is_after_damage_ = !is_unchanged;
  }

  void check_order(const AuditLine& parts) {
    const std::uint64_t expected = report_.last_seq + 1;
    if (parts.seq != expected) {
      fail("record " + std::to_string(parts.seq) + " where " + std::to_string(expected) +
           " should be: records are missing, added or moved.");
    } else if (parts.prev != prev_) {
      fail("record " + std::to_string(parts.seq) +
           " does not continue the record before it: one of the two was replaced.");
    }
  }

  Sha256 sha256_;
  AuditReport report_;
  std::string prev_ = std::string(kHashChars, '0');
  bool is_after_damage_ = false;
  fs::path path_;
  std::uint64_t line_ = 0;
};

}  // namespace

std::string to_string(const AuditProblem& problem) {
  const std::string place =
      problem.line == 0 ? std::string() : ":" + std::to_string(problem.line);
  return problem.file.string() + place + ": " + problem.what;
}

tl::expected<AuditReport, std::string> verify_audit(const fs::path& folder) {
  return Verifier().run(audit_folder_of(folder));
}

}  // namespace turnstile::gateway

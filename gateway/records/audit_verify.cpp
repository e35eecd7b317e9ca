#include "gateway/records/audit_verify.h"

#include <string_view>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "gateway/records/audit_folder.h"
#include "gateway/records/audit_line.h"
#include "gateway/records/line_file.h"
#include "gateway/records/line_reader.h"
#include "gateway/records/sha256.h"

namespace turnstile::gateway {
namespace {

namespace fs = std::filesystem;

class Verifier {
 public:
  tl::expected<AuditReport, std::string> run(const fs::path& folder) {
    auto listed = list_audit_files(folder);
    if (!listed) return tl::unexpected(std::move(listed).error());
    const std::vector<NumberedFile> files = *std::move(listed);
    if (files.empty()) {
      return tl::unexpected(folder.string() +
                            ": there is no audit log here; name the audit folder or a state_dir.");
    }
    std::uint64_t expected_number = 1;
    for (const NumberedFile& file : files) {
      path_ = file.path;
      line_ = 0;
      if (file.number != expected_number) report_missing_files(expected_number, file.number);
      expected_number = file.number + 1;
      const bool is_last = &file == &files.back();
      const auto read = each_line(path_, [&](LineReader::Next next, std::string_view line) {
        read_line(next, line, is_last);
        return true;
      });
      if (!read) return tl::unexpected(read.error());
    }
    note_other_files(folder);
    report_.files = files.size();
    report_.head = prev_;
    report_.open = open_.size();
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

  // Records could be hidden from the check under a name that only looks like one of the log.
  void note_other_files(const fs::path& folder) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      const std::string name = entry.path().filename().string();
      const bool looks_like_one = name.starts_with("audit-") && name.ends_with(".jsonl");
      if (!looks_like_one || number_of(name, "audit")) continue;
      if (report_.notes.size() < kMaxAuditProblems) {
        report_.notes.push_back({entry.path(), 0, "is no file of the log by its name, and not read."});
      }
    }
  }

  void read_line(LineReader::Next next, std::string_view line, bool is_last) {
    ++line_;
    if (next != LineReader::Next::Torn) {
      check(line);  // a line that is too long comes as an empty one, and that is no record
    } else if (is_last) {
      report_.notes.push_back({path_, line_,
                               "the last line is incomplete (" + std::to_string(line.size()) +
                                   " bytes), as after a crash; the next start moves it aside."});
    } else {
      fail("the line is incomplete, and another file follows.");
    }
  }

  void note_open(std::string_view line) {
    const AuditSubject subject = subject_of(line);
    if (subject.kind == "admitted" && open_.size() < kMaxOpenTold) {
      open_.emplace(subject.request_id);
    } else if (subject.kind == "ended") {
      open_.erase(std::string(subject.request_id));
    }
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
    note_open(line);
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
  std::unordered_set<std::string> open_;  // admitted and not ended so far
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

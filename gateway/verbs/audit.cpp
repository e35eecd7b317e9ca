// turnstile audit verify | show
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <ostream>
#include <string>

#include "gateway/records/audit_folder.h"
#include "gateway/records/audit_verify.h"
#include "gateway/records/line_reader.h"
#include "gateway/config/quantity.h"
#include "gateway/timestamp.h"
#include "gateway/verbs/config_of_verb.h"
#include "gateway/verbs/run.h"
#include "policy/plain_text.h"

namespace turnstile::gateway {
namespace {

namespace json = boost::json;

// A text member, also inside one object: text_at(record, "path", "team").
std::string_view text_at(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(json::string_view(name.data(), name.size()));
  if (value == nullptr || !value->is_string()) return {};
  return {value->get_string().data(), value->get_string().size()};
}

std::string_view text_at(const json::object& object, std::string_view name,
                         std::string_view inner) {
  const json::value* value = object.if_contains(json::string_view(name.data(), name.size()));
  return value != nullptr && value->is_object() ? text_at(value->get_object(), inner)
                                                : std::string_view();
}

struct Filter {
  const AuditShowOptions& options;
  std::optional<WallTime> from;

  bool accepts(const json::object& record) const {
    if (options.request && text_at(record, "request_id") != *options.request &&
        text_at(record, "client_request_id") != *options.request) {
      return false;
    }
    if (options.team && text_at(record, "path", "team") != *options.team &&
        text_at(record, "team") != *options.team) {
      return false;
    }
    if (options.code && text_at(record, "code") != *options.code) return false;
    if (!from) return true;
    const auto time = parse_timestamp(text_at(record, "ts"));
    return time && *time >= *from;
  }
};

}  // namespace

ExitCode run(const AuditVerifyOptions& options, Surroundings around) {
  const auto report = verify_audit(options.folder);
  if (!report) {
    around.err << policy::plain_text(report.error()) << '\n';
    return ExitCode::Environment;
  }
  for (const auto* list : {&report->problems, &report->notes}) {
    for (const AuditProblem& problem : *list) {
      around.err << policy::plain_text(to_string(problem)) << '\n';
    }
  }
  around.out << report->records << " records in " << report->files << " files, seq "
             << report->first_seq << " to " << report->last_seq << ", head " << report->head
             << '\n';
  if (report->open > 0) {
    around.out << "requests without an end: " << report->open
               << (report->open == kMaxOpenTold ? " or more" : "")
               << " (they run, or the server ended without writing it, and its next start does)\n";
  }
  if (!report->problems.empty()) {
    around.out << "the chain is broken in " << report->problems.size()
               << (report->problems.size() == kMaxAuditProblems ? " or more" : "") << " places\n";
    return ExitCode::No;
  }
  around.out << "the chain is whole\n";
  return ExitCode::Done;
}

ExitCode run(const AuditShowOptions& options, Surroundings around) {
  Filter filter{options, {}};
  if (options.from) {
    filter.from = parse_timestamp(*options.from);
    if (const auto back = parse_duration(*options.from)) filter.from = around.clock.wall() - *back;
    if (!filter.from) {
      around.err << "--from: must be a date such as 2026-08-25, an RFC 3339 time, or a duration "
                    "such as 24h.\n";
      return ExitCode::WrongUsage;
    }
  }
  const auto config = config_of_verb(options.config, {}, around.err);
  if (!config) return config.error();
  const auto files = list_audit_files(config->server.state_dir / "audit");
  if (!files) {
    around.err << policy::plain_text(files.error()) << '\n';
    return ExitCode::Environment;
  }
  if (files->empty()) {
    around.err << policy::plain_text((config->server.state_dir / "audit").string())
               << ": there is no audit log here; name another --config, or serve first.\n";
    return ExitCode::Environment;
  }
  for (const NumberedFile& file : *files) {
    const auto read = each_line(file.path, [&](LineReader::Next, std::string_view line) {
      json::error_code error;
      const json::value record = json::parse(json::string_view(line.data(), line.size()), error);
      // A torn or damaged line is for 'audit verify'.
      const bool is_record = !error && record.is_object();
      if (is_record && filter.accepts(record.get_object())) around.out << line << '\n';
      return true;
    });
    if (!read) {
      around.err << policy::plain_text(read.error()) << '\n';
      return ExitCode::Environment;
    }
  }
  return ExitCode::Done;
}

}  // namespace turnstile::gateway

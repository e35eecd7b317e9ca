#include "gateway/records/audit_tail.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>

#include "gateway/records/audit_line.h"
#include "gateway/records/json_members.h"
#include "gateway/records/line_file.h"
#include "gateway/records/line_reader.h"

namespace turnstile::gateway {
namespace {

// Where the log must be read from by what this checkpoint says; absent when it does not say.
std::optional<std::uint64_t> reads_from(std::string_view line, std::uint64_t seq) {
  const boost::json::object checkpoint = parsed_object(line);
  const auto open = count_at(checkpoint, "open");
  if (!open) return std::nullopt;
  return *open == 0 ? seq : count_at(checkpoint, "open_from");
}

// Calls `see` with each record of the file.
template <typename See>
tl::expected<void, std::string> each_record(
    const std::filesystem::path& path, const See& see,
    std::uint64_t last_bytes = std::numeric_limits<std::uint64_t>::max()) {
  const auto see_line = [&see](LineReader::Next next, std::string_view line) {
    if (next != LineReader::Next::Line) return true;
    const auto parts = take_apart(line);
    return !parts || see(line, *parts);
  };
  return each_line(path, see_line, last_bytes);
}

struct Admitted {
  std::uint64_t seq = 0;
  std::string line;
};

// The request of a line of requests.jsonl, which stands behind `ts`.
std::string_view request_of_line(std::string_view line) {
  constexpr std::string_view kBegin = ",\"request_id\":\"";
  const std::size_t begin = line.find(kBegin);
  if (begin == std::string_view::npos) return {};
  line.remove_prefix(begin + kBegin.size());
  return line.substr(0, line.find('"'));
}

// A file that cannot be read has no lines: the log is what counts.
void add_request_lines(const std::filesystem::path& file, std::vector<UnendedRequest>& unended) {
  std::unordered_map<std::string_view, UnendedRequest*> by_id;
  for (UnendedRequest& request : unended) {
    by_id.emplace(subject_of(request.admitted).request_id, &request);
  }
  const auto see = [&by_id](LineReader::Next next, std::string_view line) {
    const auto found = by_id.find(request_of_line(line));
    if (next == LineReader::Next::Line && found != by_id.end()) found->second->request_line = line;
    return true;
  };
  static_cast<void>(each_line(file, see, kMaxTailBytes));
}

}  // namespace

tl::expected<std::vector<UnendedRequest>, std::string> unended_requests(
    std::span<const NumberedFile> files, const std::filesystem::path& requests_file) {
  const std::size_t earliest = files.size() - std::min(files.size(), kMaxTailFiles);
  std::optional<std::uint64_t> from;
  std::size_t first = files.size();
  while (first > earliest && !from) {
    --first;
    const auto read = each_record(files[first].path, [&](std::string_view line, const auto& parts) {
      if (subject_of(line).kind != "checkpoint") return true;
      if (const auto said = reads_from(line, parts.seq)) from = said;
      return true;
    });
    if (!read) return tl::unexpected(read.error());
  }
  // Back to the file in which that record stands.
  while (first > earliest) {
    std::uint64_t first_seq = 0;
    const auto read = each_record(files[first].path, [&](std::string_view, const auto& parts) {
      first_seq = parts.seq;
      return false;
    });
    if (!read) return tl::unexpected(read.error());
    if (first_seq != 0 && first_seq <= from.value_or(0)) break;
    --first;
  }

  std::unordered_map<std::string, Admitted> open;
  for (; first < files.size(); ++first) {
    const auto read = each_record(files[first].path, [&](std::string_view line, const auto& parts) {
      if (parts.seq < from.value_or(0)) return true;
      const AuditSubject subject = subject_of(line);
      if (subject.kind == "admitted" && open.size() < kMaxTailRequests) {
        open[std::string(subject.request_id)] = {parts.seq, std::string(line)};
      } else if (subject.kind == "ended") {
        open.erase(std::string(subject.request_id));
      }
      return true;
    });
    if (!read) return tl::unexpected(read.error());
  }
  std::vector<Admitted> in_order;
  in_order.reserve(open.size());
  for (auto& [id, admitted] : open) in_order.push_back(std::move(admitted));
  std::ranges::sort(in_order, {}, &Admitted::seq);
  std::vector<UnendedRequest> unended;
  unended.reserve(in_order.size());
  for (Admitted& admitted : in_order) unended.push_back({std::move(admitted.line), {}});
  if (!unended.empty()) add_request_lines(requests_file, unended);
  return unended;
}

tl::expected<std::vector<std::string>, std::string> unlisted_ends(
    std::span<const NumberedFile> files, const std::filesystem::path& state_dir) {
  std::deque<std::string> ends;
  // The last file may have begun a moment ago.
  for (const NumberedFile& file : files.last(std::min<std::size_t>(files.size(), 2))) {
    const auto keep = [&ends](std::string_view line, const auto&) {
      const std::string_view kind = subject_of(line).kind;
      if (kind == "ended" || kind == "refused") ends.emplace_back(line);
      if (ends.size() > kMaxUnlisted) ends.pop_front();
      return true;
    };
    if (const auto read = each_record(file.path, keep, kMaxUnlistedBytes); !read) {
      return tl::unexpected(read.error());
    }
  }
  std::unordered_map<std::string_view, std::size_t> by_id;
  for (std::size_t i = 0; i < ends.size(); ++i) by_id.emplace(subject_of(ends[i]).request_id, i);
  std::size_t listed = 0;  // as many as stand up to the last one that has its line
  const auto see = [&](LineReader::Next next, std::string_view line) {
    const auto found = by_id.find(request_of_line(line));
    const bool is_listed = next == LineReader::Next::Line && found != by_id.end();
    if (is_listed) listed = std::max(listed, found->second + 1);
    return true;
  };
  const auto full = numbered_files(state_dir, "requests");
  if (!full) return tl::unexpected(full.error());
  const std::filesystem::path current = state_dir / "requests.jsonl";
  for (const auto& path : {full->empty() ? current : full->back().path, current}) {
    static_cast<void>(each_line(path, see, kMaxUnlistedBytes));  // it may not be there
  }
  if (listed == 0) return std::vector<std::string>();
  const auto first = ends.begin() + static_cast<std::ptrdiff_t>(listed);
  return std::vector<std::string>(first, ends.end());
}

}  // namespace turnstile::gateway

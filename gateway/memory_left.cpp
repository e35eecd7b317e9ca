#include "gateway/memory_left.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>

namespace turnstile::gateway {
namespace {

namespace fs = std::filesystem;

// Version 1 shows an absent limit as the largest multiple of a page; no machine has an exabyte.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60;

// Such files have no size until they are read, so whole_file.h does not take them.
std::optional<std::string> text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  return std::string{std::istreambuf_iterator<char>(in), {}};
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\n";
  const std::size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

std::optional<std::uint64_t> number_at(std::string_view text) {
  text = trimmed(text);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  return number;
}

template <typename Visit>
void for_each_line(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    visit(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

struct CgroupFiles {
  const char* limit;
  const char* usage;
  const char* inactive;  // in memory.stat
};
constexpr CgroupFiles kUnified{"memory.max", "memory.current", "inactive_file"};
constexpr CgroupFiles kMemory{"memory.limit_in_bytes", "memory.usage_in_bytes",
                              "total_inactive_file"};

std::optional<std::uint64_t> left_of_group(const fs::path& group, const CgroupFiles& files) {
  const auto limit_text = text_of(group / files.limit);
  const auto usage_text = text_of(group / files.usage);
  if (!limit_text || !usage_text) return std::nullopt;
  const auto limit = parse_cgroup_bytes(*limit_text);
  const auto usage = parse_cgroup_bytes(*usage_text);
  if (!limit || !usage) return std::nullopt;
  const std::uint64_t cache =
      std::min(*usage, parse_memory_stat(text_of(group / "memory.stat").value_or(""),
                                         files.inactive));
  const std::uint64_t taken = *usage - cache;
  return taken < *limit ? *limit - taken : 0;
}

// The least of a group and the groups around it. In a container the path may be that of the host,
// of which only the mount itself is there.
void limit_by_groups(const fs::path& mount, const std::string& path, const CgroupFiles& files,
                     std::optional<std::uint64_t>& left) {
  const auto apply = [&](const fs::path& group) {
    const auto of_group = left_of_group(group, files);
    if (of_group) left = left ? std::min(*left, *of_group) : *of_group;
  };
  fs::path group = fs::path(path).relative_path();
  for (; !group.empty(); group = group.parent_path()) apply(mount / group);
  apply(mount);
}

}  // namespace

std::optional<std::uint64_t> parse_mem_available(std::string_view meminfo) {
  constexpr std::string_view kName = "MemAvailable:";
  std::optional<std::uint64_t> bytes;
  for_each_line(meminfo, [&](std::string_view line) {
    if (!line.starts_with(kName)) return;
    const auto kib = number_at(line.substr(kName.size()));
    if (kib && *kib < kNoLimit / 1024) bytes = *kib * 1024;
  });
  return bytes;
}

CgroupPaths parse_cgroup_paths(std::string_view text) {
  CgroupPaths paths;
  for_each_line(text, [&](std::string_view line) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) return;
    const std::string_view names = line.substr(first + 1, second - first - 1);
    const std::string controllers = "," + std::string(names) + ",";
    const std::string path(line.substr(second + 1));
    if (controllers == ",,") paths.unified = path;
    if (controllers.find(",memory,") != std::string::npos) paths.memory = path;
  });
  return paths;
}

std::optional<std::uint64_t> parse_cgroup_bytes(std::string_view text) {
  const auto number = number_at(text);
  return number && *number < kNoLimit ? number : std::nullopt;
}

std::uint64_t parse_memory_stat(std::string_view text, std::string_view name) {
  std::uint64_t bytes = 0;
  for_each_line(text, [&](std::string_view line) {
    if (!line.starts_with(name) || line.substr(name.size(), 1) != " ") return;
    bytes = number_at(line.substr(name.size())).value_or(0);
  });
  return bytes;
}

std::optional<std::size_t> memory_left_bytes(const fs::path& root) {
  std::optional<std::uint64_t> left =
      parse_mem_available(text_of(root / "proc/meminfo").value_or(""));
  const CgroupPaths paths = parse_cgroup_paths(text_of(root / "proc/self/cgroup").value_or(""));
  const fs::path mount = root / "sys/fs/cgroup";
  if (paths.unified) {
    limit_by_groups(mount, *paths.unified, kUnified, left);
    limit_by_groups(mount / "unified", *paths.unified, kUnified, left);
  }
  if (paths.memory) limit_by_groups(mount / "memory", *paths.memory, kMemory, left);
  return left;
}

}  // namespace turnstile::gateway

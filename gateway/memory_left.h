// memory_left.h: how much memory this process may still take, as the system says.
//
//   the smaller of   MemAvailable of /proc/meminfo
//                    limit - usage + inactive file pages, of each control group from this
//                    process's up to the root (version 2, or the memory controller of version 1)
//
// Inactive file pages are cache that the system gives up first; MemAvailable has them in it.
// Source: proc(5); the kernel's cgroup-v2.rst and cgroup-v1/memory.rst.
//
// Thread: any. Errors: what cannot be read sets no limit; nullopt when nothing can be read.
// Tests:  tests/gateway/memory_left_test.cpp (a table for each parser, folders in place of /).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace turnstile::gateway {

std::optional<std::size_t> memory_left_bytes(const std::filesystem::path& root = "/");

// MemAvailable of the text of /proc/meminfo, in bytes.
std::optional<std::uint64_t> parse_mem_available(std::string_view meminfo);

// The path of a process in the hierarchies of control groups: the text of /proc/self/cgroup.
struct CgroupPaths {
  std::optional<std::string> unified;  // version 2: "0::/path"
  std::optional<std::string> memory;   // version 1: "9:memory:/path"
};
CgroupPaths parse_cgroup_paths(std::string_view text);

// One number of bytes; nullopt: no limit ("max", or version 1's "as much as can be counted").
std::optional<std::uint64_t> parse_cgroup_bytes(std::string_view text);

// The number behind `name` in memory.stat; 0 when it is not there.
std::uint64_t parse_memory_stat(std::string_view text, std::string_view name);

}  // namespace turnstile::gateway

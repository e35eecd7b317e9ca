#include "gateway/memory_left.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/temp_folder.h"

namespace turnstile::gateway {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(MemAvailable, IsReadInKibibytes) {
  const std::vector<std::pair<std::string, std::optional<std::uint64_t>>> table{
      {"MemTotal:       100 kB\nMemAvailable:    2048 kB\nBuffers: 1 kB\n", 2048U * 1024},
      {"MemAvailable:0 kB\n", 0U},
      {"MemAvailable:    7 kB", 7U * 1024},  // without a line end
      {"MemTotal:       100 kB\n", std::nullopt},
      {"MemAvailable:    many kB\n", std::nullopt},
      {"MemAvailable:    18446744073709551615 kB\n", std::nullopt},
      {"NotMemAvailable: 5 kB\n", std::nullopt},
      {"", std::nullopt},
  };
  for (const auto& [text, expected] : table) EXPECT_EQ(parse_mem_available(text), expected) << text;
}

TEST(CgroupPaths, OfBothVersionsAreFound) {
  struct Case {
    std::string text;
    std::optional<std::string> unified, memory;
  };
  const std::vector<Case> table{
      {"0::/user.slice/a\n", "/user.slice/a", std::nullopt},
      {"0::/\n", "/", std::nullopt},
      {"12:cpu,cpuacct:/x\n9:memory:/docker/1\n0::/y\n", "/y", "/docker/1"},
      {"3:hugetlb,memory:/both\n", std::nullopt, "/both"},
      {"3:memoryless:/no\n", std::nullopt, std::nullopt},
      {"0::/with:colon\n", "/with:colon", std::nullopt},
      {"broken\n0:\n", std::nullopt, std::nullopt},
      {"", std::nullopt, std::nullopt},
  };
  for (const Case& each : table) {
    const CgroupPaths paths = parse_cgroup_paths(each.text);
    EXPECT_EQ(paths.unified, each.unified) << each.text;
    EXPECT_EQ(paths.memory, each.memory) << each.text;
  }
}

TEST(CgroupBytes, NoLimitIsNoNumber) {
  const std::vector<std::pair<std::string, std::optional<std::uint64_t>>> table{
      {"max\n", std::nullopt},
      {"9223372036854771712\n", std::nullopt},  // version 1's way to say max
      {"536870912\n", 536'870'912U},
      {"0", 0U},
      {"", std::nullopt},
      {"-1\n", std::nullopt},
  };
  for (const auto& [text, expected] : table) EXPECT_EQ(parse_cgroup_bytes(text), expected) << text;
}

TEST(MemoryStat, TakesTheWholeName) {
  const std::string text = "inactive_file_more 7\ntotal_inactive_file 9\ninactive_file 4096\n";
  EXPECT_EQ(parse_memory_stat(text, "inactive_file"), 4096U);
  EXPECT_EQ(parse_memory_stat(text, "total_inactive_file"), 9U);
  EXPECT_EQ(parse_memory_stat(text, "active_file"), 0U);
  EXPECT_EQ(parse_memory_stat("", "inactive_file"), 0U);
}

// A folder in place of /.
struct Root {
  Root(std::size_t available_mib, const std::string& cgroup) {
    write("proc/meminfo", "MemAvailable: " + std::to_string(available_mib * 1024) + " kB\n");
    write("proc/self/cgroup", cgroup);
  }
  void write(const std::string& name, const std::string& text) {
    fs::create_directories((folder / name).parent_path());
    folder.write(name, text);
  }
  void group(const std::string& path, const std::string& limit, std::size_t usage_mib,
             std::size_t cache_mib) {
    write(path + "/memory.max", limit + "\n");
    write(path + "/memory.current", std::to_string(usage_mib * kMiB) + "\n");
    write(path + "/memory.stat",
          "anon 1\ninactive_file " + std::to_string(cache_mib * kMiB) + "\n");
  }
  std::size_t left_mib() const { return memory_left_bytes(folder.path()).value_or(0) / kMiB; }

  TempFolder folder;
};

std::string mebibytes(std::size_t count) { return std::to_string(count * kMiB); }

TEST(MemoryLeft, IsWhatTheSystemSaysWithoutGroups) {
  EXPECT_EQ(Root(900, "").left_mib(), 900U);
  EXPECT_EQ(Root(900, "0::/a\n").left_mib(), 900U);
}

TEST(MemoryLeft, IsUnknownWhereNothingCanBeRead) {
  const TempFolder empty;
  EXPECT_FALSE(memory_left_bytes(empty.path()));
}

TEST(MemoryLeft, TheTightestGroupAroundTheProcessCounts) {
  Root root(900, "0::/outer/inner\n");
  root.group("sys/fs/cgroup/outer/inner", "max", 100, 0);
  EXPECT_EQ(root.left_mib(), 900U);
  root.group("sys/fs/cgroup/outer/inner", mebibytes(500), 100, 30);
  EXPECT_EQ(root.left_mib(), 430U);  // cache is given back first
  root.group("sys/fs/cgroup/outer", mebibytes(300), 200, 0);
  EXPECT_EQ(root.left_mib(), 100U);
  root.group("sys/fs/cgroup/outer", mebibytes(300), 400, 0);  // a limit that was lowered
  EXPECT_EQ(root.left_mib(), 0U);
  EXPECT_TRUE(memory_left_bytes(root.folder.path()));
}

TEST(MemoryLeft, AContainerSeesItsGroupAtTheMount) {
  Root root(900, "0::/docker/abc\n");
  root.group("sys/fs/cgroup", mebibytes(256), 56, 0);
  EXPECT_EQ(root.left_mib(), 200U);
}

TEST(MemoryLeft, VersionOneHasOtherNames) {
  Root root(900, "9:memory:/docker/1\n0::/docker/1\n");
  const std::string group = "sys/fs/cgroup/memory/docker/1/";
  root.write(group + "memory.limit_in_bytes", mebibytes(600));
  root.write(group + "memory.usage_in_bytes", mebibytes(500));
  root.write(group + "memory.stat", "inactive_file 1\ntotal_inactive_file " + mebibytes(50) + "\n");
  EXPECT_EQ(root.left_mib(), 150U);
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  root.write("sys/fs/cgroup/memory/memory.usage_in_bytes", mebibytes(9000));
  EXPECT_EQ(root.left_mib(), 150U);
}

TEST(MemoryLeft, MoreCacheThanUsageIsNoCredit) {
  Root root(900, "0::/a\n");
  root.group("sys/fs/cgroup/a", mebibytes(100), 50, 80);
  EXPECT_EQ(root.left_mib(), 100U);
}

}  // namespace
}  // namespace turnstile::gateway

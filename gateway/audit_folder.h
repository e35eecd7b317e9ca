// audit_folder.h: the files of an audit log in order.
//
// Thread: any. Errors: a sentence with the path.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace turnstile::gateway {

struct AuditFileName {
  std::uint64_t number = 0;
  std::filesystem::path path;
};

// audit-000001.jsonl, ... sorted by number; empty when the folder has none or cannot be read.
std::vector<AuditFileName> list_audit_files(const std::filesystem::path& audit_folder);

// `given` itself, or given/audit when only that holds audit files: people name either.
std::filesystem::path audit_folder_of(const std::filesystem::path& given);

}  // namespace turnstile::gateway

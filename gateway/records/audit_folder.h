// audit_folder.h: the files of an audit log in order.
//
// Thread: any. Errors: a sentence with the path.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "gateway/records/line_file.h"
#include "gateway/whole_file.h"

namespace turnstile::gateway {

// Makes state_dir/audit if need be and keeps other servers out of it: two writers would break the
// chain. Take it before open_audit_folder() and hold it while the log is open.
tl::expected<FolderLock, std::string> lock_audit_folder(const std::filesystem::path& state_dir);

// audit-000001.jsonl, ... sorted by number.
tl::expected<std::vector<NumberedFile>, std::string> list_audit_files(
    const std::filesystem::path& audit_folder);

// `given` itself, or given/audit when only that holds audit files: people name either.
std::filesystem::path audit_folder_of(const std::filesystem::path& given);

}  // namespace turnstile::gateway

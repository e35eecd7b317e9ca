// vanishing_file.h: the sentence for a model file that is cut short while it is read.
//
// The file is mapped, so a page that another process took away (a download over it, a truncation),
// or that the disk cannot read, raises SIGBUS in whichever thread touches it. While this object
// lives, the process then says so and ends with exit code 3.
//
// Thread: main; the newest object speaks.
#pragma once

#include <csignal>
#include <filesystem>
#include <string>

namespace turnstile::gateway {

class VanishingFile {
 public:
  explicit VanishingFile(const std::filesystem::path& path);
  ~VanishingFile();
  VanishingFile(const VanishingFile&) = delete;
  VanishingFile& operator=(const VanishingFile&) = delete;

 private:
  std::string sentence_before_;
  struct sigaction before_ {};
};

}  // namespace turnstile::gateway

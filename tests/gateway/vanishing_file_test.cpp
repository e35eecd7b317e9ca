#include "gateway/vanishing_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/support/temp_folder.h"

namespace turnstile::gateway {
namespace {

// The server ended by a signal, without a word.
TEST(VanishingFile, AMappedFileThatIsCutShortEndsWithASentence) {
  TempFolder folder;
  const std::filesystem::path path = folder.write("m.gguf", std::string(8'192, 'x'));
  EXPECT_EXIT(
      {
        const VanishingFile watched(path);
        const int descriptor = ::open(path.c_str(), O_RDONLY);
        const void* mapped = ::mmap(nullptr, 8'192, PROT_READ, MAP_PRIVATE, descriptor, 0);
        std::filesystem::resize_file(path, 0);
        static_cast<void>(*(static_cast<const volatile char*>(mapped) + 5'000));
      },
      testing::ExitedWithCode(3), "m.gguf: the file became shorter while it was read");
}

}  // namespace
}  // namespace turnstile::gateway

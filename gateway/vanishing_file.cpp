#include "gateway/vanishing_file.h"

#include <poll.h>
#include <unistd.h>

#include <string>

#include "gateway/exit_code.h"
#include "policy/plain_text.h"

namespace turnstile::gateway {
namespace {

std::string& sentence() {
  static std::string text;
  return text;
}

void end_with_the_sentence(int) {
  const std::string& text = sentence();
  pollfd room{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&room, 1, 0) > 0) {  // nobody waits for who reads it
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  }
  ::_exit(static_cast<int>(ExitCode::Environment));
}

}  // namespace

VanishingFile::VanishingFile(const std::filesystem::path& path) : sentence_before_(sentence()) {
  sentence() = policy::plain_text(path.string()) +
               ": the file became shorter while it was read, or its disk cannot be read; start "
               "again when it is whole.\n";
  struct sigaction action {};
  action.sa_handler = end_with_the_sentence;
  ::sigaction(SIGBUS, &action, &before_);
}

VanishingFile::~VanishingFile() {
  ::sigaction(SIGBUS, &before_, nullptr);
  sentence() = sentence_before_;
}

}  // namespace turnstile::gateway

#include "gateway/keys/key_files.h"

#include <utility>

#include "gateway/whole_file.h"
#include "policy/plain_text.h"

namespace turnstile::gateway {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMinSecretChars = 32;

// A sentence of whole_file.h without the path that it begins with.
std::string without_path(const std::string& sentence, const fs::path& file) {
  const std::string path = policy::plain_text(file.string()) + ": ";
  return sentence.starts_with(path) ? sentence.substr(path.size()) : sentence;
}

}  // namespace

KeyFileReading read_key_file(const fs::path& file) {
  KeyFileReading read;
  // Taken before the text is read: a change in between shows as another version next time.
  read.version = version_of(file);
  const auto text = read_whole_file(file);
  if (text)
    read.keys = read_legible_keys(*text, file.string());
  else
    read.failure = without_path(text.error(), file);
  return read;
}

tl::expected<std::string, std::string> read_secret_file(const fs::path& file,
                                                        std::string_view what) {
  const std::string name = "the " + std::string(what);
  auto text = read_whole_file(file);
  if (!text) {
    return tl::unexpected(name + " file cannot be read: " + without_path(text.error(), file) +
                          (version_of(file) ? "" : " 'turnstile init DIR' makes one."));
  }
  if (is_open_to_others(file)) {
    return tl::unexpected(name + " file can be read by others; run 'chmod 600 " + file.string() +
                          "'.");
  }
  while (!text->empty() && (text->back() == '\n' || text->back() == '\r')) text->pop_back();
  if (text->size() < kMinSecretChars) {
    return tl::unexpected(name + " must have at least " + std::to_string(kMinSecretChars) +
                          " characters; 'turnstile init DIR' makes one.");
  }
  return *std::move(text);
}

}  // namespace turnstile::gateway

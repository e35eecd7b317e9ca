#include "engine/loader/gguf_split.h"

#include <cassert>
#include <cstdint>
#include <string_view>
#include <utility>

namespace turnstile::engine {
namespace {

constexpr std::string_view kCount = "split.count";
constexpr std::string_view kNumber = "split.no";
constexpr std::string_view kTensorCount = "split.tensors.count";

std::string five_digits(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  return digits.size() < 5 ? std::string(5 - digits.size(), '0') + digits : digits;
}

// The end of the name of part `part`, counted from 1.
std::string name_end(std::uint64_t part, std::uint64_t count) {
  return "-" + five_digits(part) + "-of-" + five_digits(count) + ".gguf";
}

std::string file_name(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

std::string part_of(std::uint64_t part, std::uint64_t count) {
  return "part " + std::to_string(part) + " of " + std::to_string(count);
}

tl::unexpected<LoadError> error_at(std::string where, std::string what) {
  return tl::unexpected(LoadError{std::move(where), std::move(what)});
}

// How many parts a file says there are; 1 when it is whole.
tl::expected<std::uint64_t, LoadError> stated_count(const GgufFile& file) {
  if (!file.has_key(kCount)) return 1;
  const auto count = file.require_uint(kCount);
  if (!count) return tl::unexpected(count.error());
  if (*count > GgufSplit::kMaxParts) {
    return error_at("key split.count", "is " + std::to_string(*count) + "; at most " +
                                           std::to_string(GgufSplit::kMaxParts) +
                                           " parts are supported");
  }
  return *count == 0 ? 1 : *count;
}

}  // namespace

tl::expected<GgufFile, LoadError> GgufSplit::complete(GgufFile first, const std::string& path,
                                                      const OpenPart& open) {
  const auto count = stated_count(first);
  if (!count) return tl::unexpected(count.error());
  if (*count == 1) return first;
  const std::uint64_t number = first.get_uint(kNumber).value_or(0);
  if (number != 0) {
    return error_at("file", "is " + part_of(number + 1, *count) +
                                " of a split model; name its first part, which ends in " +
                                name_end(1, *count));
  }
  const std::string end = name_end(1, *count);
  if (!path.ends_with(end)) {
    return error_at("file", "is " + part_of(1, *count) +
                                " of a split model, but its name does not end in " + end +
                                ", so the other parts cannot be found");
  }
  const std::string stem = path.substr(0, path.size() - end.size());
  std::vector<GgufFile> parts;
  parts.push_back(std::move(first));
  for (std::uint64_t part = 2; part <= *count; ++part) {
    const std::string part_path = stem + name_end(part, *count);
    auto file = open(part_path);
    if (!file) {
      return error_at(part_of(part, *count) + " (" + file_name(part_path) + ")",
                      file.error().where + ": " + file.error().what);
    }
    parts.push_back(std::move(*file));
  }
  return join(std::move(parts));
}

tl::expected<GgufFile, LoadError> GgufSplit::join(std::vector<GgufFile> parts) {
  assert(!parts.empty() && "a model has a first part");
  const std::uint64_t count = parts.size();
  std::uint64_t tensor_count = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t said_number = parts[i].get_uint(kNumber).value_or(0);
    const std::uint64_t said_count = parts[i].get_uint(kCount).value_or(1);
    if (said_number != i || said_count != count) {
      return error_at(part_of(i + 1, count),
                      "says that it is " + part_of(said_number + 1, said_count) +
                          "; it has another part's name, or belongs to another model");
    }
    tensor_count += parts[i].tensors_.size();
  }
  if (parts[0].has_key(kTensorCount)) {
    const auto stated = parts[0].require_uint(kTensorCount);
    if (!stated) return tl::unexpected(stated.error());
    if (*stated != tensor_count) {
      return error_at("key split.tensors.count", "is " + std::to_string(*stated) +
                                                     " but the parts hold " +
                                                     std::to_string(tensor_count) + " tensors");
    }
  }
  if (tensor_count > GgufLimits::kMaxTensors) {
    return error_at("file", "has " + std::to_string(tensor_count) +
                                " tensors in all parts; at most " +
                                std::to_string(GgufLimits::kMaxTensors) + " are supported");
  }
  GgufFile whole = std::move(parts[0]);
  whole.tensors_.reserve(tensor_count);
  for (std::uint64_t i = 1; i < count; ++i) {
    GgufFile& part = parts[i];
    for (const auto& [name, index] : part.tensor_index_) {
      if (!whole.tensor_index_.emplace(name, whole.tensors_.size() + index).second) {
        return error_at(part_of(i + 1, count),
                        "repeats tensor " + std::string(name) + " of an earlier part");
      }
    }
    for (GgufTensor& tensor : part.tensors_) whole.tensors_.push_back(std::move(tensor));
    part.tensors_.clear();
    whole.other_bytes_ += part.bytes_.size();
    whole.other_parts_.push_back(std::move(part));
  }
  return whole;
}

}  // namespace turnstile::engine

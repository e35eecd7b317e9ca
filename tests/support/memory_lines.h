// memory_lines.h: a LineSink that keeps the lines, for tests and simulation.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/records/line_writer.h"

namespace turnstile::gateway {

class MemoryLines final : public LineSink {
 public:
  void write(LineStream stream, std::string_view line) override {
    lines_[static_cast<std::size_t>(stream)].emplace_back(line);
  }
  bool is_writable() const override { return is_writable_; }

  // With their line feeds, in the order written.
  const std::vector<std::string>& lines(LineStream stream) const {
    return lines_[static_cast<std::size_t>(stream)];
  }
  std::string text(LineStream stream) const {
    std::string all;
    for (const std::string& line : lines(stream)) all += line;
    return all;
  }
  void set_writable(bool is_writable) { is_writable_ = is_writable; }

 private:
  std::array<std::vector<std::string>, kLineStreams> lines_;
  bool is_writable_ = true;
};

}  // namespace turnstile::gateway

// sse_reader.h: cuts a server-sent event stream into the data of its events.
//
// WHATWG HTML, section 9.2.6: lines end with LF, CR or CR LF; `data` lines of one event are joined
// by LF; an empty line ends the event; lines that begin with a colon and unknown fields are
// ignored. An event without data is none. Pieces may be cut at any byte.
#pragma once

#include <string>
#include <string_view>

namespace turnstile::load {

class SseReader {
 public:
  // Calls on_data(std::string_view) for each event that `bytes` completes.
  template <class OnData>
  void feed(std::string_view bytes, OnData&& on_data) {
    for (const char c : bytes) {
      const bool ends_cr_lf = c == '\n' && last_was_cr_;
      last_was_cr_ = c == '\r';
      if (ends_cr_lf) continue;
      if (c != '\n' && c != '\r') {
        line_.push_back(c);
      } else if (line_.empty()) {
        if (has_data_) on_data(std::string_view(data_));
        data_.clear();
        has_data_ = false;
      } else {
        on_line();
      }
    }
  }

  void reset() { *this = SseReader(); }

 private:
  void on_line() {
    std::string_view line = line_;
    if (line.starts_with("data:") || line == "data") {
      line.remove_prefix(line == "data" ? 4 : 5);
      if (line.starts_with(' ')) line.remove_prefix(1);
      if (has_data_) data_.push_back('\n');
      data_.append(line);
      has_data_ = true;
    }
    line_.clear();
  }

  std::string line_;
  std::string data_;
  bool has_data_ = false;
  bool last_was_cr_ = false;
};

}  // namespace turnstile::load

#include "engine/template/marked_text.h"

#include <algorithm>
#include <cassert>

namespace turnstile::engine {

MarkedText::MarkedText(std::string text, Origin origin) : text_(std::move(text)) {
  if (origin == Origin::Client) mark(0, text_.size());
}

void MarkedText::mark(std::size_t begin, std::size_t end) {
  if (begin == end) return;
  if (!client_.empty() && client_.back().end == begin) {
    client_.back().end = end;
  } else {
    client_.push_back({begin, end});
  }
}

void MarkedText::append(std::string_view text, Origin origin) {
  const std::size_t begin = text_.size();
  text_.append(text);
  if (origin == Origin::Client) mark(begin, text_.size());
}

void MarkedText::append(const MarkedText& other) { append_slice(other, 0, other.size()); }

void MarkedText::append_slice(const MarkedText& other, std::size_t begin, std::size_t end) {
  assert(begin <= end && end <= other.size() && "a slice lies inside the text");
  const std::size_t at = text_.size();
  text_.append(other.text_, begin, end - begin);
  auto range =
      std::upper_bound(other.client_.begin(), other.client_.end(), begin,
                       [](std::size_t position, const ByteRange& r) { return position < r.end; });
  for (; range != other.client_.end() && range->begin < end; ++range) {
    mark(at + std::max(range->begin, begin) - begin, at + std::min(range->end, end) - begin);
  }
}

MarkedText MarkedText::slice(std::size_t begin, std::size_t end) const {
  MarkedText result;
  result.append_slice(*this, begin, end);
  return result;
}

MarkedText MarkedText::with_text(std::string text) const {
  assert(text.size() == text_.size() && "marks need bytes of the same number");
  MarkedText result;
  result.text_ = std::move(text);
  result.client_ = client_;
  return result;
}

}  // namespace turnstile::engine

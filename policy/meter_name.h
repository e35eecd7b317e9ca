// meter_name.h: the name of a meter or bucket in records, shared instead of copied.
//
// A decision names up to a dozen meters. Records outlive the meters of keys that are dropped, so a
// name owns its text, but all copies own it together: copying one allocates nothing.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace turnstile::policy {

class MeterName {
 public:
  MeterName() = default;
  MeterName(std::string text) : text_(std::make_shared<const std::string>(std::move(text))) {}
  MeterName(const char* text) : MeterName(std::string(text)) {}

  std::string_view view() const { return text_ ? std::string_view(*text_) : std::string_view(); }
  operator std::string_view() const { return view(); }
  // REQUIRES: not the empty name.
  const std::string& text() const { return *text_; }

  friend bool operator==(const MeterName& name, std::string_view text) {
    return name.view() == text;
  }

 private:
  std::shared_ptr<const std::string> text_;
};

}  // namespace turnstile::policy

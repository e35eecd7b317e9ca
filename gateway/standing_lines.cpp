#include "gateway/standing_lines.h"

#include "gateway/api/answer_lines.h"
#include "gateway/spine_context.h"

namespace turnstile::gateway {

void StandingLines::begin(std::string_view key_id) {
  has_begun_ = true;
  key_id_ = key_id;
}

void StandingLines::set(std::string_view service_class, std::string_view policy_revision) {
  service_class_ = service_class;
  policy_revision_ = policy_revision;
}

void StandingLines::keep_rates(const SpineContext& context) {
  rates_ = context.admission.rate_view(context.clock.now(), key_id_);
}

void StandingLines::end() {
  has_begun_ = false;
  service_class_.clear();
  rates_.reset();
}

void StandingLines::append_to(std::string& out, const SpineContext& context) const {
  if (!has_begun_) return;
  const policy::Admission& admission = context.admission;
  const bool has_class = !service_class_.empty();
  const std::string_view service_class = has_class ? service_class_ : admission.class_for(key_id_);
  const std::string_view revision = has_class ? policy_revision_ : admission.policy().revision;
  append_answer_lines(out, service_class, revision,
                      rates_ ? *rates_ : admission.rate_view(context.clock.now(), key_id_));
}

}  // namespace turnstile::gateway

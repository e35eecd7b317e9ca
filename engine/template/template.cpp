#include "engine/template/template.h"

#include "engine/template/evaluator.h"
#include "engine/template/lexer.h"
#include "engine/template/parser.h"
#include "engine/template/render_context.h"
#include "engine/template/render_limits.h"
#include "engine/template/template_failure.h"

namespace turnstile::engine {

tl::expected<std::shared_ptr<const Template>, TemplateError> Template::compile(
    std::string_view source) {
  if (source.size() > RenderLimits::kMaxSourceBytes) {
    return tl::unexpected(TemplateError{
        1,
        "the template has more than " + std::to_string(RenderLimits::kMaxSourceBytes) + " bytes"});
  }
  std::shared_ptr<Template> compiled(new Template());
  const std::string normalized = normalize_source(source);
  try {
    compiled->block_ = parse_template(normalized, compiled->names_);
  } catch (TemplateFailure& failure) {
    return tl::unexpected(std::move(failure.error));
  }
  return compiled;
}

tl::expected<MarkedText, TemplateError> Template::render(std::span<const Variable> variables,
                                                         std::optional<CivilTime> now) const {
  RenderContext context(now);
  Evaluator evaluator(names_, context);
  for (const auto& [name, value] : variables) {
    if (value.depth() > RenderLimits::kMaxValueDepth) {
      return tl::unexpected(
          TemplateError{0, "the variable '" + std::string(name) + "' is nested too deeply"});
    }
    value.freeze();
    if (const NameId* id = names_.find(name)) evaluator.set_global(*id, value);
  }
  try {
    return evaluator.run(block_);
  } catch (TemplateFailure& failure) {
    return tl::unexpected(std::move(failure.error));
  }
}

}  // namespace turnstile::engine

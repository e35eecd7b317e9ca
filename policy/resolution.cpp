#include "policy/resolution.h"

#include <algorithm>
#include <utility>

namespace turnstile::policy {
namespace {

std::string model_scope(const Model& model) {
  std::string text = "model/";
  text += model.alias;
  return text;
}

// Takes the smaller of a limit and `tokens`, remembering whose it is.
void tighten(std::optional<Resolved::TokenLimit>& limit, const std::optional<std::int64_t>& tokens,
             const std::string& scope) {
  if (tokens && (!limit || *tokens < limit->tokens)) limit = Resolved::TokenLimit{*tokens, scope};
}

void tighten(std::optional<std::int64_t>& limit, const std::optional<std::int64_t>& tokens) {
  if (tokens && (!limit || *tokens < *limit)) limit = tokens;
}

tl::expected<std::size_t, Refusal> choose_model(const std::vector<Model>& models,
                                                const ConstPath& path, const Ask& ask) {
  Refusal refusal;
  refusal.param = "model";
  for (std::size_t index = 0; index < models.size(); ++index) {
    if (ask.model && models[index].alias != *ask.model) continue;
    if (allows_model(path, models[index].alias)) return index;
    refusal.code = RefusalCode::ModelNotAllowed;
    if (ask.model) return tl::unexpected(refusal);
  }
  // A request without a model, from a key that may use none, is not allowed; a name that nobody
  // serves is not found.
  refusal.code = ask.model ? RefusalCode::ModelNotFound : RefusalCode::ModelNotAllowed;
  return tl::unexpected(refusal);
}

struct ClassChoice {
  ClassIndex effective = 0;
  std::optional<ClassClamp> clamp;
};

ClassChoice clamp_class(const PolicySet& policy, const ConstPath& path, const Model& model,
                        ClassIndex wanted) {
  ClassChoice choice{wanted, std::nullopt};
  std::string by;
  const auto lower_to = [&](const std::optional<ClassIndex>& highest, const std::string& scope) {
    // A larger index is a lower class.
    if (!highest || *highest <= choice.effective) return;
    choice.effective = *highest;
    by = scope;
  };
  for (const Principal* node : path) lower_to(node->rules.max_class, node->scope);
  if (model.max_class) lower_to(model.max_class, model_scope(model));
  if (choice.effective != wanted) {
    choice.clamp = ClassClamp{policy.classes[wanted].name, policy.classes[choice.effective].name,
                              std::move(by)};
  }
  return choice;
}

ClassIndex default_class(const PolicySet& policy, const ConstPath& path, const Model& model) {
  for (const Principal* node : path) {
    if (node->rules.default_class) return *node->rules.default_class;
  }
  return model.default_class.value_or(policy.fallback_class);
}

}  // namespace

std::vector<Model> served_models(const PolicySet& policy, const std::string& engine_model) {
  std::vector<Model> models;
  if (policy.models.empty()) {
    Model own;
    own.alias = engine_model;
    own.serves = engine_model;
    models.push_back(std::move(own));
    return models;
  }
  std::ranges::copy_if(policy.models, std::back_inserter(models),
                       [&](const Model& model) { return model.serves == engine_model; });
  return models;
}

bool allows_model(const ConstPath& path, std::string_view alias) {
  return std::ranges::all_of(path, [&](const Principal* node) {
    const auto& list = node->rules.models;
    return !list || std::ranges::find(*list, alias) != list->end();
  });
}

ClassIndex class_of_path(const PolicySet& policy, const std::vector<Model>& models,
                         const ConstPath& path) {
  static const Model kNoModel;
  const auto first = std::ranges::find_if(
      models, [&](const Model& model) { return allows_model(path, model.alias); });
  const Model& model = first == models.end() ? kNoModel : *first;
  return clamp_class(policy, path, model, default_class(policy, path, model)).effective;
}

bool path_enabled(const Principals& principals, const KeyState& key) {
  return key.usable && std::ranges::none_of(principals.path(key), [](const Principal* node) {
           return node->rules.disabled;
         });
}

Refusal key_disabled() {
  Refusal refusal;
  refusal.code = RefusalCode::KeyDisabled;
  return refusal;
}

tl::expected<Resolved, Refusal> resolve_request(const PolicySet& policy,
                                                const std::vector<Model>& models,
                                                const Principals& principals, const KeyState* key,
                                                const Ask& ask) {
  if (key == nullptr || !path_enabled(principals, *key)) return tl::unexpected(key_disabled());
  const ConstPath path = principals.path(*key);

  const auto model_index = choose_model(models, path, ask);
  if (!model_index) return tl::unexpected(model_index.error());
  const Model& model = models[*model_index];

  ClassIndex wanted = default_class(policy, path, model);
  if (ask.requested_class) {
    const auto named = policy.find_class(*ask.requested_class);
    if (!named) {
      Refusal refusal;
      refusal.code = RefusalCode::InvalidValue;
      refusal.param = "class";
      return tl::unexpected(refusal);
    }
    wanted = *named;
  }
  ClassChoice choice = clamp_class(policy, path, model, wanted);
  const ClassRules& rules = policy.classes[choice.effective];

  Resolved resolved;
  resolved.key_handle = key->handle;
  resolved.class_index = choice.effective;
  resolved.model_index = *model_index;
  resolved.key_id = key->id;
  resolved.team = policy.teams[key->team_index].name;
  resolved.department = policy.departments[policy.teams[key->team_index].department].name;
  resolved.class_name = rules.name;
  if (ask.requested_class) resolved.requested_class = policy.classes[wanted].name;
  resolved.clamp = std::move(choice.clamp);
  resolved.model_alias = model.alias;
  resolved.serves = model.serves;
  resolved.revision = policy.revision;
  resolved.timeouts = rules.timeouts;
  resolved.ticket = ask.ticket;

  for (const Principal* node : path) {
    tighten(resolved.max_input, node->rules.max_input_tokens, node->scope);
    tighten(resolved.max_output, node->rules.max_output_tokens, node->scope);
    tighten(resolved.default_max_tokens, node->rules.default_max_tokens);
  }
  if (model.max_input_tokens) {
    tighten(resolved.max_input, model.max_input_tokens, model_scope(model));
  }
  if (rules.max_output_tokens) {
    tighten(resolved.max_output, rules.max_output_tokens, "class/" + rules.name);
  }
  tighten(resolved.default_max_tokens, rules.default_max_tokens);
  return resolved;
}

}  // namespace turnstile::policy

#include "engine/template/ast.h"

namespace turnstile::engine {

NameId NameTable::intern(std::string_view name) {
  if (const NameId* known = find(name)) return *known;
  const auto id = static_cast<NameId>(names_.size());
  names_.emplace_back(name);
  ids_.emplace(names_.back(), id);
  return id;
}

const NameId* NameTable::find(std::string_view name) const {
  const auto found = ids_.find(name);
  return found == ids_.end() ? nullptr : &found->second;
}

}  // namespace turnstile::engine

// Templates against python3-jinja2: tests/golden/make_templates.py wrote the expected outputs. With
// TURNSTILE_TEMPLATES=FILE it reads others of the same form (templates_against_jinja2.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "engine/template/template.h"
#include "tests/engine/golden_lines.h"
#include "tests/engine/json_value.h"

namespace turnstile::engine {
namespace {

constexpr CivilTime kNow{2026, 8, 7, 9, 5, 3};  // also in make_templates.py

TEST(TemplateGolden, EqualsJinja2OnEveryTemplate) {
  std::vector<std::pair<std::string, Value>> variables;
  std::size_t rendered = 0;
  std::size_t failed = 0;
  const char* other = std::getenv("TURNSTILE_TEMPLATES");
  const std::size_t lines = for_each_line(
      other != nullptr ? other : TURNSTILE_GOLDEN_DIR "/templates.jsonl", [&](simdjson::dom::element element, std::size_t number) {
        if (number == 1) {
          for (const auto field : simdjson::dom::object(element["variables"])) {
            variables.emplace_back(std::string(field.key), value_of_json(field.value));
          }
          return;
        }
        const std::string source = string_at(element, "template");
        SCOPED_TRACE("line " + std::to_string(number) + ": " + source);
        std::vector<Variable> views(variables.begin(), variables.end());
        const auto compiled = Template::compile(source);
        const auto result =
            compiled ? (*compiled)->render(views, kNow) : tl::unexpected(compiled.error());
        if (has(element, "output")) {
          ++rendered;
          ASSERT_TRUE(result) << result.error().message;
          EXPECT_EQ(result->text(), string_at(element, "output"));
          return;
        }
        ++failed;
        ASSERT_FALSE(result) << "rendered: " << result->text();
        EXPECT_EQ(result.error().raised_by_template, has(element, "raised"));
        if (has(element, "raised")) {
          EXPECT_EQ(result.error().message, string_at(element, "raised"));
        }
        EXPECT_FALSE(result.error().message.empty());
        EXPECT_GE(result.error().line, 1);
        const auto source_lines = std::count(source.begin(), source.end(), '\n') + 1;
        EXPECT_LE(result.error().line, source_lines);
      });
  EXPECT_GT(lines, 400u);
  EXPECT_GE(rendered, 300u);
  EXPECT_GE(failed, 40u);
}

}  // namespace
}  // namespace turnstile::engine

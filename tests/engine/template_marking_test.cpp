#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "engine/template/marked_text.h"
#include "engine/template/template.h"

namespace turnstile::engine {
namespace {

using Ranges = std::vector<ByteRange>;

Ranges ranges_of(const MarkedText& text) {
  return {text.client_ranges().begin(), text.client_ranges().end()};
}

void expect_invariants(const MarkedText& text) {
  std::size_t end = 0;
  bool is_first = true;
  for (const ByteRange& range : text.client_ranges()) {
    ASSERT_LT(range.begin, range.end);
    ASSERT_TRUE(is_first || range.begin > end) << "ranges touch or overlap";
    is_first = false;
    end = range.end;
  }
  ASSERT_LE(end, text.size());
}

TEST(MarkedText, JoinsTouchingRanges) {
  MarkedText text("own");
  text.append("client", Origin::Client);
  text.append(MarkedText("more", Origin::Client));
  text.append("", Origin::Client);
  text.append("own", Origin::Template);
  EXPECT_EQ(text.text(), "ownclientmoreown");
  EXPECT_EQ(ranges_of(text), (Ranges{{3, 13}}));
}

TEST(MarkedText, AnEmptyClientTextMarksNothing) {
  EXPECT_FALSE(MarkedText("", Origin::Client).has_client_bytes());
}

// Against one flag for each byte.
TEST(MarkedText, RandomAppendsAndSlicesAgreeWithFlagsPerByte) {
  for (std::uint32_t seed = 0; seed < 3'000; ++seed) {
    std::mt19937 random(seed);
    MarkedText text;
    std::vector<bool> flags;
    for (int step = 0; step < 12; ++step) {
      if (random() % 3 != 0) {
        const std::size_t length = random() % 5;
        const bool is_client = random() % 2 == 0;
        text.append(std::string(length, 'x'), is_client ? Origin::Client : Origin::Template);
        flags.insert(flags.end(), length, is_client);
      } else {
        const std::size_t begin = random() % (text.size() + 1);
        const std::size_t end = begin + random() % (text.size() - begin + 1);
        const MarkedText slice = text.slice(begin, end);
        text.append(slice);
        const std::vector<bool> copied(flags.begin() + static_cast<std::ptrdiff_t>(begin),
                                       flags.begin() + static_cast<std::ptrdiff_t>(end));
        flags.insert(flags.end(), copied.begin(), copied.end());
      }
      expect_invariants(text);
      std::vector<bool> seen(text.size(), false);
      for (const ByteRange& range : text.client_ranges()) {
        for (std::size_t i = range.begin; i < range.end; ++i) seen[i] = true;
      }
      ASSERT_EQ(seen, flags) << "seed " << seed;
    }
  }
}

// The client writes only X, Y, Z, x, y, z and spaces between dots; no template here does. So each
// output byte tells by itself whose it is (spaces aside), whatever was done to the texts.
bool is_client_byte(char c) { return std::string_view("XYZxyz").find(c) != std::string_view::npos; }

class Marking : public testing::TestWithParam<const char*> {};

TEST_P(Marking, EveryClientByteStaysMarkedAndNoOther) {
  const auto client = [](const char* text) { return Value::text(text, Origin::Client); };
  const auto own = [](const char* text) { return Value::text(text, Origin::Template); };
  const std::vector<Variable> variables = {
      {"c", client("XYZ")},
      {"spaced", client("  Xx Yy\nZz \n")},
      {"list", Value::list({client("X"), client("y"), own("own"), client("X")})},
      {"table", Value::dict({{client("X"), client("Y")}, {own("k"), client("Z")}})},
      {"messages", Value::list({Value::dict(
                       {{own("role"), client("X")}, {own("content"), client("YyYyX\"Y\\Z\nX")}})})},
  };
  const auto compiled = Template::compile(GetParam());
  ASSERT_TRUE(compiled) << compiled.error().message;
  const auto text = (*compiled)->render(variables, std::nullopt);
  ASSERT_TRUE(text) << text.error().message;
  expect_invariants(*text);
  std::size_t client_bytes = 0;
  for (std::size_t i = 0; i < text->size(); ++i) {
    const char byte = text->text()[i];
    const bool is_marked =
        std::any_of(text->client_ranges().begin(), text->client_ranges().end(),
                    [&](const ByteRange& r) { return r.begin <= i && i < r.end; });
    if (is_client_byte(byte)) {
      ++client_bytes;
      EXPECT_TRUE(is_marked) << "byte " << i << " of " << text->text();
    } else if (byte != ' ' && byte != '\n' && byte != '"' && byte != '\\') {
      EXPECT_FALSE(is_marked) << "byte " << i << " of " << text->text();
    }
  }
  EXPECT_GT(client_bytes, 0u) << text->text();
}

INSTANTIATE_TEST_SUITE_P(
    EachOperation, Marking,
    testing::Values(
        "a{{ c }}b", "{{ 'a' + c + 'b' }}", "{{ c + c ~ 'a' ~ 1 ~ c }}", "{{ 'a' ~ c }}",
        "{{ (('a' + c) + ('b' + c))[1:6] }}", "{{ ('ab' + c)[::-1] }}",
        "{{ ('a' + c)[1] }}{{ c[0] }}", "{{ ('abc' + c)[::2] }}",
        "{{ spaced.strip() }}|{{ spaced | trim }}|{{ spaced.lstrip() }}",
        "{{ c.strip('X') }}{{ ('a' + c).strip('aZ') }}", "{{ spaced.split() }}",
        "{{ spaced.split('\\n') | join('-') }}", "{{ ('a,' + c + ',b').split(',')[1] }}",
        "{{ ('a,' + c).rsplit(',', 1) }}", "{{ c.replace('Y', 'own') }}",
        "{{ 'a-b'.replace('-', c) }}", "{{ 'own' | replace('w', c) }}", "{{ 'ab'.replace('', c) }}",
        "{{ (c + 'abc') | upper }}{{ ('ABC' + c) | lower }}{{ (c + 'ABC') | capitalize }}",
        "{{ c.lower() }}{{ c.upper() }}", "{{ c | string | safe }}", "{{ list }}{{ table }}",
        "{{ (c, 'a') }}", "{{ messages | tojson }}", "{{ table | tojson(indent=2) }}",
        "{{ list | tojson(separators=(',', ':')) }}", "{{ list | join('-') }}{{ list | join(c) }}",
        "{{ '-'.join(list) }}", "{% for ch in 'a' + c %}{{ ch }}{% endfor %}",
        "{{ (c + 'a') | list }}", "{% for k, v in table.items() %}{{ k }}={{ v }}{% endfor %}",
        "{% for k in table %}{{ k }}{% endfor %}{{ table | dictsort }}{{ table | items | list }}",
        "{{ list | sort }}{{ list | unique | list }}{{ list | first }}{{ list | last }}",
        "{{ list | reverse | list }}{{ ('a' + c) | reverse }}", "{{ list | map('upper') | list }}",
        "{{ messages | map(attribute='content') | first }}",
        "{{ list | select('equalto', 'X') | list }}", "{{ missing | default(c) }}",
        "{{ spaced | indent(3, true) }}{{ 'a\\nb' | indent(c) }}", "{{ spaced.splitlines() }}",
        "{{ c * 3 }}{{ ('a' + c) * 2 }}", "{% set v = c + 'a' %}{{ v }}",
        "{% set v %}a{{ c }}b{% endset %}{{ v }}{{ v | upper }}",
        "{% filter upper %}a{{ c }}b{% endfilter %}",
        "{% macro m(p, q='own') %}[{{ p }}{{ q }}]{% endmacro %}{{ m(c) }}{{ m('a', c) }}",
        "{% set ns = namespace(v=c) %}{% set ns.v = ns.v + 'a' %}{{ ns.v }}",
        "{{ c if c else 'a' }}{{ c or 'a' }}{{ 'a' and c }}",
        "{{ messages[0]['content'] }}{{ messages[0].get('role') }}",
        "{{ {c: 1} }}{{ dict(k=c) }}{{ [c] + ['a'] }}", "{{ ('a' + c).removeprefix('a') }}",
        "{% set l = [] %}{% set _ = l.append(c) %}{{ l }}{{ l.pop() }}"));

TEST(Marking, TheFormatOfATimeKeepsItsOrigin) {
  const auto compiled = Template::compile("{{ strftime_now(c) }}{{ strftime_now('%Y') }}");
  ASSERT_TRUE(compiled);
  const std::vector<Variable> variables = {{"c", Value::text("<%d>", Origin::Client)}};
  const auto text = (*compiled)->render(variables, CivilTime{2026, 8, 7, 9, 5, 3});
  ASSERT_TRUE(text);
  EXPECT_EQ(text->text(), "<07>2026");
  EXPECT_EQ(ranges_of(*text), (Ranges{{0, 4}}));
}

}  // namespace
}  // namespace turnstile::engine

#include "engine/template/template.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "engine/template/render_limits.h"

namespace turnstile::engine {
namespace {

constexpr CivilTime kMorning{2026, 8, 7, 9, 5, 3};

tl::expected<MarkedText, TemplateError> render(std::string_view source,
                                               const std::vector<Variable>& variables = {}) {
  const auto compiled = Template::compile(source);
  if (!compiled) return tl::unexpected(compiled.error());
  return (*compiled)->render(variables, kMorning);
}

std::string output(std::string_view source, const std::vector<Variable>& variables = {}) {
  const auto text = render(source, variables);
  return text ? text->text() : "failed: " + text.error().message;
}

TemplateError failure(std::string_view source, const std::vector<Variable>& variables = {}) {
  const auto text = render(source, variables);
  EXPECT_FALSE(text) << "rendered: " << text->text().substr(0, 200);
  return text ? TemplateError{} : text.error();
}

TEST(Template, NamesTheLineOfAFailure) {
  EXPECT_EQ(failure("a\n\n{{ 1 / 0 }}").line, 3);
  EXPECT_EQ(failure("a\n{{ x\n").line, 2);
  EXPECT_EQ(failure("{% if true %}\n{{ missing.x }}\n{% endif %}").line, 2);
  EXPECT_EQ(failure("{% if true %}\n\n").line, 1) << "where the open statement began";
  EXPECT_EQ(failure("{% macro m() %}\n\n{{ [] + 1 }}{% endmacro %}\n\n{{ m() }}").line, 3);
}

struct Refusal {
  const char* source;
  const char* message;  // a part of it
};

TEST(Template, SaysWhatItDoesNotSupport) {
  const std::vector<Refusal> table = {
      {"{% include 'x' %}", "'include' is unknown, not supported"},
      {"{% import 'os' as os %}", "'import'"},
      {"{% from 'x' import y %}", "'from'"},
      {"{% extends 'x' %}", "'extends'"},
      {"{% block x %}{% endblock %}", "'block'"},
      {"{% call m() %}{% endcall %}", "'call'"},
      {"{% do x %}", "'do'"},
      {"{% raw %}x{% endraw %}", "'raw'"},
      {"{% endfor %}", "'endfor' is unknown, not supported, or out of place"},
      {"{% for x in y recursive %}{% endfor %}", "recursive loops"},
      {"{% break %}", "'break' outside a loop"},
      {"{% for i in [1] %}{% macro m() %}{% continue %}{% endmacro %}{% endfor %}",
       "'continue' outside a loop"},
      {"{{ f(*args) }}", "with * or **"},
      {"{{ 0x10 }}", "only decimal numbers"},
      {"{{ '\\N{DASH}' }}", "\\N escapes"},
      {"{{ '\\ud800' }}", "is not a character"},
      {"{{ 99999999999999999999 }}", "does not fit 64 bits"},
      {"{% set true = 1 %}", "cannot assign to 'true'"},
      {"{{ [1, 2 }}", "unexpected"},
      {"{{ ) }}", "unexpected ')'"},
      {"{{ 'a }}", "a string is not closed"},
      {"{# a", "a comment is not closed"},
      {"{{ a ? b }}", "unexpected character"},
      {"{{ }}", "expected an expression, found '}}'"},
      {"{% if %}{% endif %}", "expected an expression, found '%}'"},
      {"{% for x %}{% endfor %}", "expected 'in'"},
      {"{% if true %}x", "'{% endif %}' is missing"},
      {"{{ 'x' | from_json }}", "there is no filter 'from_json'"},
      {"{{ 'x' is nope }}", "there is no test 'nope'"},
      {"{{ 'x'.format(1) }}", "a str has no method 'format' that is supported"},
      {"{{ '%s' % 1 }}", "formatting a text with '%'"},
      {"{{ {}.update({}) }}", "the method 'update' of a dict is not supported"},
      {"{% for i in [1] %}{{ loop.changed(1) }}{% endfor %}", "loop.changed() is not supported"},
      {"{{ strftime_now('%Q') }}", "conversion in the format is not supported"},
  };
  for (const Refusal& refusal : table) {
    const TemplateError error = failure(refusal.source);
    EXPECT_NE(error.message.find(refusal.message), std::string::npos)
        << refusal.source << ": " << error.message;
    EXPECT_FALSE(error.raised_by_template);
  }
}

// A template from a model file is code that must not get at anything.
TEST(Template, NothingLeadsOutOfTheInterpreter) {
  for (const std::string root : {"''", "[]", "{}", "()", "messages", "namespace()", "none", "1",
                                 "range", "raise_exception", "loop_like", "dict"}) {
    for (const std::string name : {"__class__", "__init__", "__globals__", "__mro__",
                                   "__subclasses__", "__builtins__", "__import__"}) {
      EXPECT_FALSE(render("{{ " + root + "." + name + "." + name + " }}")) << root << name;
      EXPECT_FALSE(render("{{ " + root + "['" + name + "']['" + name + "'] }}")) << root << name;
      EXPECT_FALSE(render("{{ " + root + "." + name + "() }}")) << root << name;
    }
  }
  for (const char* name : {"self", "cycler", "joiner", "lipsum", "caller", "open", "eval", "exec",
                           "__import__", "getattr", "globals", "config", "request"}) {
    EXPECT_FALSE(render("{{ " + std::string(name) + "() }}")) << name;
  }
  EXPECT_FALSE(render("{{ [''] | map(attribute='__class__.__mro__') | list }}"));
  EXPECT_FALSE(render("{{ 'x' | attr('__class__') }}"));
}

TEST(Template, StepsAreBounded) {
  const std::string message = "the template needs more than 500000 steps";
  for (const char* source : {
           "{% for a in range(999) %}{% for b in range(999) %}{% for c in range(999) %}"
           "{% endfor %}{% endfor %}{% endfor %}",
           "{% set ns = namespace(s='x') %}{% for i in range(30) %}{% for j in range(20000) %}"
           "{% if true %}{% endif %}{% endfor %}{% endfor %}",
           "{% set l = range(1000) | list %}{% for i in range(1000) %}{% set x = l + l %}{% endfor "
           "%}",
           "{% set s = ('ab' * 1000) * 2000 %}{% for i in range(1000) %}{% set x = 'b' in s %}{% "
           "endfor %}",
           "{% set s = ('ab' * 1000) * 2000 %}{% for i in range(1000) %}{% set x = s | upper %}{% "
           "endfor %}",
           "{% set s = ('ab' * 1000) * 2000 %}{% for i in range(1000) %}{% set x = s == s + '' %}"
           "{% endfor %}",
           "{% set l = range(2000) | list %}{{ l | unique | list }}",
           "{% set l = range(2000) | list %}{% for x in l %}{% set y = x in l %}{% endfor %}",
           "{{ (('ab' * 1000) * 3000)[::-1] }}",
       }) {
    EXPECT_EQ(failure(source).message, message) << source;
  }
}

TEST(Template, SizesAreBounded) {
  EXPECT_NE(failure("{{ range(1000000000) }}").message.find("a list of more than"),
            std::string::npos);
  EXPECT_NE(failure("{{ range(-9223372036854775807, 9223372036854775807) }}")
                .message.find("a list of more than"),
            std::string::npos);
  EXPECT_NE(failure("{{ 'x' * 1000000000000 }}").message.find("a text of more than 8388608"),
            std::string::npos);
  EXPECT_NE(failure("{{ [1] * 1000000000000 }}").message.find("a list of more than"),
            std::string::npos);
  EXPECT_NE(failure("{% set s = ('x' * 4000) * 1000 %}{{ s }}{{ s }}{{ s }}")
                .message.find("a text of more than 8388608"),
            std::string::npos);
  EXPECT_NE(failure("{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(60) %}"
                    "{% set ns.s = ns.s + ns.s %}{% endfor %}")
                .message.find("a text of more than 8388608"),
            std::string::npos);
  EXPECT_NE(failure("{{ [1, 2] | tojson(indent=100000000) }}").message.find("a text of more than"),
            std::string::npos);
  const auto compiled = Template::compile(std::string(RenderLimits::kMaxSourceBytes + 1, 'x'));
  ASSERT_FALSE(compiled);
  EXPECT_NE(compiled.error().message.find("1048576 bytes"), std::string::npos);
}

TEST(Template, DepthIsBounded) {
  EXPECT_NE(
      failure("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}").message.find("more than 64 deep"),
      std::string::npos);
  EXPECT_NE(failure("{% set ns = namespace(l=[]) %}{% for i in range(200) %}"
                    "{% set ns.l = [ns.l] %}{% endfor %}")
                .message.find("nested too deeply"),
            std::string::npos);
  EXPECT_NE(failure("{% set ns = namespace(d={}) %}{% for i in range(200) %}"
                    "{% set ns.d = {'d': ns.d} %}{% endfor %}")
                .message.find("nested too deeply"),
            std::string::npos);
  EXPECT_NE(failure("{% set ns = namespace() %}{% for i in range(200) %}"
                    "{% set ns = namespace(n=ns) %}{% set l = [ns] %}{% endfor %}{{ 1 / 0 }}")
                .message.find("division"),
            std::string::npos)
      << "a name set in a loop does not leak, so nothing nests";
  const std::string open(300, '(');
  const std::string close(300, ')');
  EXPECT_NE(failure("{{ " + open + "1" + close + " }}").message.find("nested too deeply"),
            std::string::npos);
  std::string chain = "{{ 1";
  for (int i = 0; i < 300; ++i) chain += " - 1";
  EXPECT_NE(failure(chain + " }}").message.find("nested too deeply"), std::string::npos);
  std::string blocks;
  for (int i = 0; i < 100; ++i) blocks += "{% if true %}";
  EXPECT_NE(failure(blocks).message.find("nested too deeply"), std::string::npos);
  std::string notnot = "{{ ";
  for (int i = 0; i < 5'000; ++i) notnot += "not ";
  EXPECT_NE(failure(notnot + "1 }}").message.find("nested too deeply"), std::string::npos);
  std::string minus = "{{ " + std::string(5'000, '-') + "1 }}";
  EXPECT_NE(failure(minus).message.find("nested too deeply"), std::string::npos);
}

TEST(Template, ALongSumIsNotDeep) {
  std::string sum = "{{ 'x'";
  for (int i = 0; i < 5'000; ++i) sum += " + 'x'";
  EXPECT_EQ(output(sum + " }}"), std::string(5'001, 'x'));
}

TEST(Template, ContainersCannotContainThemselves) {
  EXPECT_NE(failure("{% set l = [] %}{{ l.append(l) }}").message.find("part of another value"),
            std::string::npos);
  EXPECT_NE(failure("{% set l = [] %}{% set ns = namespace(l=l) %}{{ l.append(ns) }}")
                .message.find("part of another value"),
            std::string::npos);
  EXPECT_NE(failure("{% set ns = namespace() %}{% set ns.me = ns %}")
                .message.find("part of another value"),
            std::string::npos);
  EXPECT_NE(failure("{% set ns = namespace() %}{% set ns.l = [ns] %}")
                .message.find("part of another value"),
            std::string::npos);
  EXPECT_NE(failure("{% set inner = [1] %}{% set outer = [inner] %}{{ inner.append(2) }}")
                .message.find("part of another value"),
            std::string::npos);
}

TEST(Template, TheRequestIsNotChanged) {
  const Value list = Value::list({Value::integer(1)});
  const Value dict = Value::dict({{Value::text("k", Origin::Client), Value::integer(1)}});
  const std::vector<Variable> variables = {{"list", list}, {"dict", dict}};
  EXPECT_NE(failure("{{ list.append(2) }}", variables).message.find("comes from the request"),
            std::string::npos);
  EXPECT_NE(failure("{{ dict.pop('k') }}", variables).message.find("comes from the request"),
            std::string::npos);
  EXPECT_EQ(list.as_list()->items.size(), 1u);
}

TEST(Template, AListSharedByTwoNamesIsOneList) {
  EXPECT_EQ(output("{% set a = [1] %}{% set b = a %}{% set _ = a.append(2) %}{{ b }}"), "[1, 2]");
}

TEST(Template, LoopAndMacrosEndWithTheirScope) {
  EXPECT_NE(failure("{% set ns = namespace() %}{% for i in [1] %}{% set ns.l = loop %}{% endfor %}"
                    "{{ ns.l.index }}")
                .message.find("after its loop has ended"),
            std::string::npos);
  EXPECT_NE(
      failure("{% set ns = namespace() %}{% for i in [1] %}{% macro m() %}{{ i }}{% endmacro %}"
              "{% set ns.m = m %}{% endfor %}{{ ns.m() }}")
          .message.find("called outside of its scope"),
      std::string::npos);
  EXPECT_EQ(output("{% set ns = namespace() %}{% macro m() %}m{% endmacro %}{% set ns.m = m %}"
                   "{{ ns.m() }}"),
            "m");
}

TEST(Template, IntegersDoNotOverflow) {
  for (const char* source :
       {"{{ 9223372036854775807 + 1 }}", "{{ -9223372036854775807 - 2 }}",
        "{{ 9223372036854775807 * 2 }}", "{{ 2 ** 64 }}", "{{ 3 ** 1000000000000 }}",
        "{{ (-9223372036854775807 - 1) // -1 }}", "{{ -(-9223372036854775807 - 1) }}",
        "{{ (-9223372036854775807 - 1) | abs }}"}) {
    EXPECT_NE(failure(source).message.find("does not fit 64 bits"), std::string::npos) << source;
  }
  EXPECT_EQ(
      output("{{ (-9223372036854775807 - 1) % -1 }} {{ (-1) ** 1000000000001 }} {{ 1 ** 99 }}"),
      "0 -1 1");
  EXPECT_EQ(output("{{ 'abc'[-9223372036854775807:9223372036854775807] }}"
                   "{{ [1, 2][::-9223372036854775807] }}"),
            "abc[2]");
}

TEST(Template, RaisedWordsAreTheTemplatesOwn) {
  const TemplateError error = failure("\n{{ raise_exception('Roles must alternate') }}");
  EXPECT_TRUE(error.raised_by_template);
  EXPECT_EQ(error.message, "Roles must alternate");
  EXPECT_EQ(error.line, 2);
}

TEST(Template, TheTimeIsGivenByTheCaller) {
  EXPECT_EQ(output("{{ strftime_now('%d %b %Y %e|%-m|%F %T %D') }}"),
            "07 Aug 2026  7|8|2026-08-07 09:05:03 08/07/26");
  const auto compiled = Template::compile("{{ strftime_now('%Y') }}");
  ASSERT_TRUE(compiled);
  const auto text = (*compiled)->render({}, std::nullopt);
  ASSERT_FALSE(text);
  EXPECT_NE(text.error().message.find("the time is not known"), std::string::npos);
}

TEST(Template, TheCalendarIsRight) {
  const auto format = [](int year, int month, int day, const char* form) {
    return *format_time({year, month, day, 0, 0, 0}, form);
  };
  EXPECT_EQ(format(2000, 2, 29, "%A %j"), "Tuesday 060");
  EXPECT_EQ(format(1970, 1, 1, "%a %I %p"), "Thu 12 AM");
  EXPECT_EQ(format(2100, 3, 1, "%a %j"), "Mon 060");
  EXPECT_EQ(format(2024, 12, 31, "%a %j %y"), "Tue 366 24");
}

TEST(Template, GenerationIsTransparentAndScopesNothing) {
  EXPECT_EQ(output("{% generation %}{% set a = 1 %}x{% endgeneration %}{{ a }}"), "x1");
}

TEST(Template, AVariableOfTheRequestHidesAFunction) {
  EXPECT_EQ(output("{{ range }}", {{"range", Value::integer(3)}}), "3");
}

TEST(Template, RendersOnSeveralThreadsAtOnce) {
  const auto compiled = Template::compile(
      "{% set ns = namespace(t='') %}{% for m in messages %}{% set ns.t = ns.t + m.content %}"
      "{% endfor %}{{ ns.t }}{{ messages | tojson }}");
  ASSERT_TRUE(compiled);
  const Value messages = Value::list({Value::dict(
      {{Value::text("content", Origin::Template), Value::text("x", Origin::Client)}})});
  const std::vector<Variable> variables = {{"messages", messages}};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 200; ++turn) {
        const auto text = (*compiled)->render(variables, std::nullopt);
        ASSERT_TRUE(text);
        ASSERT_EQ(text->text(), "x[{\"content\": \"x\"}]");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace turnstile::engine

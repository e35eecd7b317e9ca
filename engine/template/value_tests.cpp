#include "engine/template/value_tests.h"

#include <algorithm>
#include <array>

#include "engine/template/operators.h"
#include "engine/template/text_methods.h"
#include "engine/template/value_text.h"

namespace turnstile::engine {
namespace {

void expect_none(const RenderContext& context, const Arguments& arguments) {
  bind_arguments(context, arguments, "the test", {});
}

const Value& only_argument(const RenderContext& context, const Arguments& arguments) {
  const auto given = bind_arguments(context, arguments, "the test", {"other"});
  if (given[0] == nullptr) context.fail("a test needs something to compare with");
  return *given[0];
}

template <bool (*holds)(const Value&)>
bool plain(RenderContext& context, const Value& input, const Arguments& arguments) {
  expect_none(context, arguments);
  return holds(input);
}

template <Operator op>
bool comparison(RenderContext& context, const Value& input, const Arguments& arguments) {
  return compare(context, op, input, only_argument(context, arguments));
}

bool is_defined(const Value& v) { return !v.is_undefined(); }
bool is_undefined(const Value& v) { return v.is_undefined(); }
bool is_none(const Value& v) { return v.is_none(); }
bool is_string(const Value& v) { return v.is_text(); }
bool is_mapping(const Value& v) { return v.is_dict(); }
bool is_number(const Value& v) { return v.is_number(); }
bool is_integer(const Value& v) { return v.is_integer(); }
bool is_float(const Value& v) { return v.is_real(); }
bool is_boolean(const Value& v) { return v.as_bool().has_value(); }
bool is_true(const Value& v) { return v.as_bool().value_or(false); }
bool is_false(const Value& v) { return !v.as_bool().value_or(true); }
bool is_callable(const Value& v) { return v.as_function() != nullptr || v.as_macro() != nullptr; }
// Undefined iterates over nothing and has a length of 0, as in Jinja.
bool is_iterable(const Value& v) {
  return v.is_text() || v.is_list() || v.is_dict() || v.is_undefined();
}

bool test_case(RenderContext& context, const Value& input, const Arguments& arguments, bool upper) {
  expect_none(context, arguments);
  const MarkedText text = to_str(context, input);
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (std::none_of(text.text().begin(), text.text().end(), is_letter)) return false;
  return text.text() == (upper ? to_upper(text) : to_lower(text)).text();
}

bool test_lower(RenderContext& context, const Value& input, const Arguments& arguments) {
  return test_case(context, input, arguments, false);
}

bool test_upper(RenderContext& context, const Value& input, const Arguments& arguments) {
  return test_case(context, input, arguments, true);
}

bool is_zero_modulo(RenderContext& context, const Value& input, const Value& divisor) {
  const Value rest = apply_binary(context, Operator::Modulo, input, divisor);
  return rest.is_number() && *rest.as_real() == 0.0;
}

bool test_even(RenderContext& context, const Value& input, const Arguments& arguments) {
  expect_none(context, arguments);
  return is_zero_modulo(context, input, Value::integer(2));
}

bool test_odd(RenderContext& context, const Value& input, const Arguments& arguments) {
  return !test_even(context, input, arguments);
}

bool test_divisible(RenderContext& context, const Value& input, const Arguments& arguments) {
  return is_zero_modulo(context, input, only_argument(context, arguments));
}

bool test_same(RenderContext& context, const Value& input, const Arguments& arguments) {
  const Value& other = only_argument(context, arguments);
  return input.type_name() == other.type_name() && context.are_equal(input, other);
}

constexpr std::array kTests = {
    TestFunction{"boolean", plain<is_boolean>},
    TestFunction{"callable", plain<is_callable>},
    TestFunction{"defined", plain<is_defined>},
    TestFunction{"divisibleby", test_divisible},
    TestFunction{"eq", comparison<Operator::Equal>},
    TestFunction{"equalto", comparison<Operator::Equal>},
    TestFunction{"even", test_even},
    TestFunction{"false", plain<is_false>},
    TestFunction{"float", plain<is_float>},
    TestFunction{"ge", comparison<Operator::GreaterEqual>},
    TestFunction{"greaterthan", comparison<Operator::Greater>},
    TestFunction{"gt", comparison<Operator::Greater>},
    TestFunction{"in", comparison<Operator::In>},
    TestFunction{"integer", plain<is_integer>},
    TestFunction{"iterable", plain<is_iterable>},
    TestFunction{"le", comparison<Operator::LessEqual>},
    TestFunction{"lessthan", comparison<Operator::Less>},
    TestFunction{"lower", test_lower},
    TestFunction{"lt", comparison<Operator::Less>},
    TestFunction{"mapping", plain<is_mapping>},
    TestFunction{"ne", comparison<Operator::NotEqual>},
    TestFunction{"none", plain<is_none>},
    TestFunction{"number", plain<is_number>},
    TestFunction{"odd", test_odd},
    TestFunction{"sameas", test_same},
    TestFunction{"sequence", plain<is_iterable>},
    TestFunction{"string", plain<is_string>},
    TestFunction{"true", plain<is_true>},
    TestFunction{"undefined", plain<is_undefined>},
    TestFunction{"upper", test_upper},
};

}  // namespace

const TestFunction* find_test(std::string_view name) {
  const auto found = std::find_if(kTests.begin(), kTests.end(),
                                  [&](const TestFunction& t) { return t.name == name; });
  return found == kTests.end() ? nullptr : &*found;
}

}  // namespace turnstile::engine

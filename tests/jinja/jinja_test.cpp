// The template language against goldens of jinja2 as transformers sets it up
// (goldens/make_template_goldens.py), what is refused by name, and the bounds that limit a hostile template
// to an error.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "routeopd/base/error.h"
#include "routeopd/jinja/interpreter.h"
#include "routeopd/jinja/parser.h"
#include "testing_files.h"

namespace routeopd::jinja {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string rendered(const std::string& source, const OrderedJson& variables = OrderedJson::object(),
                     const Limits& limits = {}) {
  const Template parsed = parse(source);
  Interpreter interpreter(limits);
  for (const auto& [name, value] : variables.items())
    interpreter.define(name, value_of(interpreter.heap(), value));
  return interpreter.render(parsed);
}

std::string error_in(const std::string& source, const OrderedJson& variables = OrderedJson::object()) {
  return error_of([&] { rendered(source, variables); });
}

std::string repeated(const std::string& part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

TEST(Jinja, SnippetsAreThoseOfJinja) {
  const auto path = std::filesystem::path(ROUTEOPD_TEST_DATA) / "goldens" / "templates.json";
  const OrderedJson goldens = OrderedJson::parse(bytes_in(path));
  int texts = 0;
  int errors = 0;
  int refused = 0;
  for (const OrderedJson& snippet : goldens["snippets"]) {
    const auto source = snippet["source"].get<std::string>();
    if (snippet.contains("text")) {
      ++texts;
      try {
        EXPECT_EQ(rendered(source, goldens["variables"]), snippet["text"].get<std::string>()) << source;
      } catch (const UserError& error) {
        ADD_FAILURE() << source << "\nthrew " << error.what();
      }
      continue;
    }
    const std::string error = error_in(source, goldens["variables"]);
    EXPECT_THAT(error, StartsWith("chat template, line ")) << source;
    if (snippet.contains("refused")) {
      ++refused;
      EXPECT_THAT(error, AnyOf(HasSubstr("not supported"), HasSubstr("to print"), HasSubstr("below 2^63")))
          << source;
    } else {
      ++errors;
    }
  }
  EXPECT_GT(texts, 650);
  EXPECT_GT(errors, 150);
  EXPECT_EQ(refused, 10);
}

TEST(Jinja, ErrorsNameTheLine) {
  EXPECT_EQ(error_in("a\n{{ x }}\n{{ x.y }}"), "chat template, line 3: 'x' is undefined");
  EXPECT_EQ(error_in("a\n{% if x %}"),
            "chat template, line 2: expected 'endif', got the end of the template");
  EXPECT_EQ(error_in("\n\n{{ 1 | nonesuch }}"), "chat template, line 3: filter nonesuch is not supported");
  EXPECT_EQ(error_in("\n{% if true %}\n{{ 1 is nonesuch }}{% endif %}"),
            "chat template, line 3: test nonesuch is not supported");
  EXPECT_EQ(error_in("{{ raise_exception('roles must alternate') }}"),
            "chat template, line 1: roles must alternate");
  EXPECT_EQ(error_in("{#\n\n#}{%- set a -%}\n\n{{ 1\n+\n'a' }}{% endset %}"),
            "chat template, line 6: + is not defined for int and str");
  EXPECT_EQ(error_in("{% macro m() %}\n{{ none + 1 }}{% endmacro %}\n{{ m() }}"),
            "chat template, line 2: + is not defined for NoneType and int");
  EXPECT_EQ(error_in("{{ 'a\nb\n' }}{{ @ }}"), "chat template, line 3: expected a word of jinja, got @");
}

TEST(Jinja, RefusesByName) {
  EXPECT_THAT(error_in("{% include 'x' %}"), HasSubstr("tag include is not supported"));
  EXPECT_THAT(error_in("{% import 'x' as y %}"), HasSubstr("tag import is not supported"));
  EXPECT_THAT(error_in("{% extends 'x' %}"), HasSubstr("tag extends is not supported"));
  EXPECT_THAT(error_in("{{ lipsum() }}"), HasSubstr("lipsum is not supported"));
  EXPECT_THAT(error_in("{{ 'a'.encode() }}"), HasSubstr("encode of a str is not supported"));
  EXPECT_THAT(error_in("{{ 5 .real }}"), HasSubstr("real of a int is not supported"));
  EXPECT_THAT(error_in("{{ ('<'|escape).replace('a', 'b') }}"), HasSubstr("replace of an escaped text"));
  EXPECT_THAT(error_in("{{ strftime_now('%f') }}"), HasSubstr("%f is not supported"));
  EXPECT_THAT(error_in("{{ 'x' is sameas 'x' }}"), HasSubstr("sameas of str is not supported"));
  EXPECT_THAT(error_in("{{ {}.keys() == {}.keys() }}"), HasSubstr("comparing dict_keys with dict_keys"));
}

TEST(Jinja, IntegersBeyond64BitsAreErrors) {
  const OrderedJson big{{"big", INT64_MAX}};
  EXPECT_EQ(rendered("{{ big }} {{ -big - 1 }}", big), "9223372036854775807 -9223372036854775808");
  for (const char* source : {"{{ big + 1 }}", "{{ -big - 2 }}", "{{ big * 2 }}", "{{ 2 ** 63 }}",
                             "{{ -(-big - 1) }}", "{{ (-big - 1) // -1 }}", "{{ (-big - 1)|abs }}"})
    EXPECT_THAT(error_in(source, big), HasSubstr("64 bits")) << source;
  EXPECT_THAT(error_in("{{ 9223372036854775808 }}"), HasSubstr("below 2^63"));
  EXPECT_THAT(error_of([] { rendered("", {{"x", UINT64_MAX}}); }),
              HasSubstr("below 2^63, got 18446744073709551615"));
  EXPECT_EQ(rendered("{{ (-big - 1) % -1 }}", big), "0");
}

TEST(Jinja, TextFromOutsideMustBeUtf8) {
  EXPECT_THAT(error_in("a\xff"), HasSubstr("expected UTF-8"));
  EXPECT_THAT(error_of([] { rendered("", {{"x", "a\xff"}}); }), HasSubstr("expected UTF-8"));
  EXPECT_THAT(error_of([] { rendered("", {{"x", {{"\xed\xa0\x80", 1}}}}); }), HasSubstr("expected UTF-8"));
  EXPECT_THAT(error_in("{{ '\\ud800' }}"), HasSubstr("which is none"));
}

// Whatever a template computes ends soon, with an error message.
TEST(Jinja, WorkAndMemoryAreBounded) {
  constexpr std::array<const char*, 27> kHostile{
      "{{ 'a' * 10000000000 }}",
      "{{ ('a' * 60000000) ~ ('b' * 60000000) }}",
      "{{ ('a' * 60000000) + ('b' * 60000000) }}",
      "{{ [1] * 10000000000 }}",
      "{{ range(10000000000) }}",
      "{{ 'a'.ljust(10000000000) }}{{ 'a'.zfill(10000000000) }}",
      "{{ 'a'|center(10000000000) }}",
      "{{ 'a'|indent(10000000000) }}",
      "{{ '%10000000000s' % 'a' }}",
      "{{ '{:10000000000}'.format('a') }}",
      "{{ '%.1000f' % 1.5 }}",
      "{{ [1]|tojson(indent=10000000000) }}",
      "{{ [1]|batch(10000000000, 'x')|list }}",
      "{{ [1]|slice(10000000000)|list }}",
      "{{ ('ab' * 1000000).replace('a', 'x' * 1000000) }}",
      "{{ (('a' * 1000000)|list)|join('b' * 1000000) }}",
      "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
      "{% set ns = namespace(x='a') %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(1000) %}{% set ns.x = [ns.x] %}{% endfor %}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(150) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ "
      "ns.x }}",
      "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(150) %}{% set ns.x = [ns.x, ns.x] %}{% set "
      "ns.y = [ns.y, "
      "ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
      "{% set ns = namespace(x=(1,)) %}{% for i in range(150) %}{% set ns.x = (ns.x, ns.x) %}{% endfor %}{{ "
      "{ns.x: 1} }}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(1000) %}{% set ns.x = ns.x|map('string') %}{% endfor "
      "%}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% macro m(n) %}{{ 'a' * 1000000 }}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}",
      "{% set ns = namespace() %}{% set ns.me = [ns] %}{{ ns }}",
  };
  for (const char* source : kHostile) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_THAT(error_in(source), StartsWith("chat template, line ")) << source;
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60)) << source;
  }
}

TEST(Jinja, LimitsAreKept) {
  const auto error_with = [](const char* source, const Limits& limits) {
    return error_of([&] { rendered(source, OrderedJson::object(), limits); });
  };
  const char* const loop = "{% for i in range(1000) %}{{ i }}{% endfor %}";
  EXPECT_EQ(error_with(loop, {.steps = 20'000}), "");
  EXPECT_THAT(error_with(loop, {.steps = 1'000}), HasSubstr("within 1000 steps"));
  EXPECT_THAT(error_with(loop, {.text_bytes = 1'000}), HasSubstr("at most 1000 bytes"));
  const char* const list = "{% set x = range(1000)|list %}";
  EXPECT_EQ(error_with(list, {.items = 1'000}), "");
  EXPECT_THAT(error_with(list, {.items = 999}), HasSubstr("at most 999 items"));
  EXPECT_THAT(error_with(list, {.memory_bytes = 20'000}), HasSubstr("below 20000 bytes"));
  EXPECT_THAT(error_with("{{ [[[[1]]]] }}", {.depth = 4}), HasSubstr("at most 4 nested operations"));
  // Freed values no longer count.
  EXPECT_EQ(
      error_with("{% for i in range(1000) %}{% set x = 'a' * 10000 %}{% endfor %}", {.memory_bytes = 50'000}),
      "");
}

TEST(Jinja, SourcesAreBoundedInSizeAndDepth) {
  EXPECT_THAT(error_in(std::string((4U << 20U) + 1, 'a')), HasSubstr("expected at most 4194304 bytes"));
  const std::array<std::string, 9> deep{
      "{{ " + repeated("(", 10'000) + "1" + repeated(")", 10'000) + " }}",
      "{{ " + repeated("[", 10'000) + repeated("]", 10'000) + " }}",
      "{{ " + repeated("-", 10'000) + "1 }}",
      "{{ " + repeated("not ", 10'000) + "1 }}",
      "{{ 1" + repeated(" + 1", 10'000) + " }}",
      "{{ x" + repeated(".y", 10'000) + " }}",
      "{{ x" + repeated("|list", 10'000) + " }}",
      repeated("{% if 1 %}", 10'000) + repeated("{% endif %}", 10'000),
      "{% for " + repeated("(", 10'000) + "x" + repeated(")", 10'000) + " in y %}{% endfor %}",
  };
  for (const std::string& source : deep)
    EXPECT_THAT(error_in(source), AnyOf(HasSubstr("200 nested"), HasSubstr("at most 200")))
        << source.substr(0, 20);
  // A conditional within a conditional is parsed once, not twice per level.
  EXPECT_EQ(rendered("{{ " + repeated("(", 60) + "1" + repeated(" if 1)", 60) + " }}"), "1");
  OrderedJson nested = 1;
  for (int i = 0; i < 300; ++i) nested = OrderedJson::array({nested});
  EXPECT_THAT(error_of([&] { rendered("", {{"x", nested}}); }), HasSubstr("200 nested levels"));
}

// Searching is linear even if every position nearly matches.
TEST(Jinja, SearchingIsLinear) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(
      rendered("{% set a = 'a' * 1000000 %}{% set b = 'a' * 500000 ~ 'b' %}{% set c = 'b' ~ 'a' * 500000 %}"
               "{{ b in a }}{{ a.rfind(c) }}{{ a.count(b) }}{{ a.split(b)|length }}{{ a.rsplit(c)|length }}"
               "{{ (a ~ 'b').find(b) }}{{ ('b' ~ a).rfind(c) }}"),
      "False-10115000000");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(Jinja, TimesAreOfThisMachine) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  EXPECT_EQ(rendered("{{ strftime_now('%Y') }}{{ strftime_now('') }}"), std::to_string(1900 + parts.tm_year));
}

// Namespaces and macros that contain themselves are freed: leaks fail under AddressSanitizer.
TEST(Jinja, CyclesAreFreed) {
  EXPECT_EQ(rendered("{% set ns = namespace() %}{% set ns.me = ns %}{% set ns.l = [ns, {'a': ns}] %}"
                     "{% macro m() %}{% macro n() %}x{% endmacro %}{{ n() }}{% set ns.m = m %}{% set ns.n = "
                     "n %}{% endmacro %}"
                     "{% for i in [1, 2] %}{% set ns.loop = loop %}{{ m() }}{{ ns.n() }}{% endfor %}"),
            "xxxx");
}

// A loop that holds itself, through a generator that reads what the body sets, is neither a cycle nor a deep
// chain. A chain of macros, each of which has the previous one in a scope around its own, is freed without
// recursion: one of 100,000 would overflow the stack.
TEST(Jinja, ChainsAreFreedOneByOne) {
  EXPECT_EQ(
      rendered("{% set ns = namespace(x=0) %}{% for i in range(20000) %}"
               "{% for z in [ns, ns]|map(attribute='x') %}{% set ns.x = [loop] %}{% endfor %}{% endfor %}"),
      "");
  EXPECT_EQ(
      rendered("{% set ns = namespace(x=0) %}{% macro f(previous) %}{% with %}{% macro g() %}{% endmacro %}"
               "{% set ns.x = g %}{% endwith %}{% endmacro %}"
               "{% for i in range(100000) %}{{ f(ns.x) }}{% endfor %}"),
      "");
  EXPECT_THAT(
      error_in(
          "{% set ns = namespace() %}{% for i in [1] %}{% set ns.l = loop %}{% endfor %}{{ ns.l.index }}"),
      HasSubstr("after the end of its loop"));
}

}  // namespace
}  // namespace routeopd::jinja

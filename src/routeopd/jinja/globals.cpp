//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/jinja/globals.h"

#include <array>
#include <ctime>

#include "routeopd/base/error.h"
#include "routeopd/base/utf8.h"
#include "routeopd/jinja/filters.h"
#include "routeopd/jinja/printing.h"

namespace routeopd::jinja {
namespace {

constexpr std::int64_t kMaxRange = 100'000;  // the sandbox's own bound

Value call_range(Interpreter&, Arguments arguments) {
  if (!arguments.named.empty()) throw UserError("range takes no argument by name");
  const auto given = bound("range", arguments, {"start", "stop", "step"}, 1);
  std::array<std::int64_t, 3> bounds{0, 0, 1};
  if (!given[1]) {
    bounds[1] = integer_argument("range", *given[0]);
  } else {
    for (std::size_t i = 0; i < 3; ++i) {
      if (given[i]) bounds[i] = integer_argument("range", *given[i]);
    }
  }
  const auto [start, stop, step] = bounds;
  if (step == 0) throw UserError("range: expected a step, got zero");
  const __int128 distance =
      step > 0 ? static_cast<__int128>(stop) - start : static_cast<__int128>(start) - stop;
  const __int128 stride = step > 0 ? static_cast<__int128>(step) : -static_cast<__int128>(step);
  const __int128 length = distance <= 0 ? 0 : (distance - 1) / stride + 1;
  if (length > kMaxRange) throw UserError("range: expected at most {} numbers, got more", kMaxRange);
  return std::make_shared<const Range>(Range{start, stop, step, static_cast<std::int64_t>(length)});
}

// dict(pairs or dict, name=value)
std::vector<std::pair<Value, Value>> entries_of(Interpreter& interpreter, std::string_view what,
                                                Arguments arguments) {
  Heap& heap = interpreter.heap();
  std::vector<std::pair<Value, Value>> entries;
  if (arguments.positional.size() > 1)
    throw UserError("{}: expected at most one argument by place, got more", what);
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional.front();
    if (const Dict* dict = as_dict(source)) {
      entries = dict->entries;
    } else {
      Cursor cursor(heap, source);
      for (Value item; cursor.next(item);) {
        Values pair = items_of(heap, item);
        if (pair.size() != 2) throw UserError("{}: expected pairs, got {} values", what, pair.size());
        entries.emplace_back(std::move(pair[0]), std::move(pair[1]));
        heap.expect_items(static_cast<std::int64_t>(entries.size()));
      }
    }
  }
  for (auto& [name, value] : arguments.named) entries.emplace_back(heap.text(name), std::move(value));
  return entries;
}

Value call_dict(Interpreter& interpreter, Arguments arguments) {
  return interpreter.heap().dict(entries_of(interpreter, "dict", std::move(arguments)));
}

Value call_namespace(Interpreter& interpreter, Arguments arguments) {
  const Value made = call_dict(interpreter, std::move(arguments));
  std::vector<std::pair<std::string, Value>> attributes;
  for (const auto& [key, value] : as_dict(made)->entries) {
    const std::string& name = text_argument("namespace", key).bytes;
    if (name.starts_with('_'))
      throw UserError("namespace: expected names without an underscore in front, got {}", name);
    attributes.emplace_back(name, value);
  }
  return interpreter.make_namespace(std::move(attributes));
}

Value call_raise(Interpreter& interpreter, Arguments arguments) {
  const auto given = bound("raise_exception", arguments, {"message"}, 1);
  throw UserError(str(interpreter.heap(), *given[0]));
}

// The time now, in this machine's zone. What a time without a zone cannot say is refused.
Value call_strftime(Interpreter& interpreter, Arguments arguments) {
  const auto given = bound("strftime_now", arguments, {"format"}, 1);
  const std::string& format = text_argument("strftime_now", *given[0]).bytes;
  constexpr std::string_view kKnown = "aAbBcdDeFHIjmMpSTuUVwWxXyYGhnRtrCg%";
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') continue;
    if (++i == format.size() || kKnown.find(format[i]) == std::string_view::npos)
      throw UserError("strftime_now: %{} is not supported", i < format.size() ? format.substr(i, 1) : "");
  }
  constexpr std::size_t kMaxFormat = 256;
  if (format.size() > kMaxFormat)
    throw UserError("strftime_now: expected at most {} bytes of format, got {}", kMaxFormat, format.size());
  if (format.empty()) return interpreter.heap().text("");
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  std::array<char, 128 * kMaxFormat> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), format.c_str(), &parts);
  std::string written(text.data(), size);
  if (!is_utf8(written))
    throw UserError("strftime_now: expected UTF-8 from this machine's locale, got other bytes");
  return interpreter.heap().text(std::move(written));
}

Value cycler_of(Interpreter& interpreter, Values items, bool joiner) {
  Heap& heap = interpreter.heap();
  const int nesting = nesting_of(heap.list(items));
  const auto bytes = static_cast<std::int64_t>(256 + items.size() * sizeof(Value));
  return std::make_shared<Cycler>(Cycler{std::move(items), 0, joiner, nesting, Charge(heap, bytes)});
}

Value call_cycler(Interpreter& interpreter, Arguments arguments) {
  if (arguments.positional.empty() || !arguments.named.empty())
    throw UserError("cycler: expected items to cycle through, got none");
  return cycler_of(interpreter, std::move(arguments.positional), false);
}

Value make_joiner(Interpreter& interpreter, Arguments arguments) {
  auto given = bound("joiner", arguments, {"sep"});
  return cycler_of(interpreter, {given[0] ? *given[0] : interpreter.heap().text(", ")}, true);
}

}  // namespace

Value call_joiner(Cycler& joiner, Heap& heap) {
  if (joiner.at == 0) {
    joiner.at = 1;
    return heap.text("");
  }
  return joiner.items[0];
}

std::optional<Value> global(Heap& heap, std::string_view name) {
  struct Named {
    std::string_view name;
    Value (*call)(Interpreter&, Arguments);
  };
  constexpr std::array<Named, 7> kGlobals{{
      {"range", call_range},
      {"dict", call_dict},
      {"namespace", call_namespace},
      {"raise_exception", call_raise},
      {"strftime_now", call_strftime},
      {"cycler", call_cycler},
      {"joiner", make_joiner},
  }};
  for (const Named& each : kGlobals) {
    if (each.name == name) return heap.function(std::string(name), 0, each.call);
  }
  if (name == "lipsum" || name == "self" || name == "super") throw UserError("{} is not supported", name);
  return std::nullopt;
}

}  // namespace routeopd::jinja

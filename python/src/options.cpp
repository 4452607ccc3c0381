// The settings of an objective, for Python: the same table of fields, presets, defaults and checks that
// recipes and the command line have, asked in JSON through plain C functions.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/routing/options.h"

#include <nlohmann/json.hpp>
#include <string>

namespace {

using routeopd::Json;

// Valid until the thread's next call.
const char* answer(const Json& json) {
  thread_local std::string text;
  text = json.dump();
  return text.c_str();
}

}  // namespace

// {"k": 8, …}: settings over their defaults. {"value": {…}}: all of them; or {"error": "…"}.
extern "C" __attribute__((visibility("default"))) const char* routeopd_options(const char* settings) {
  try {
    const routeopd::routing::ObjectiveOptions options =
        routeopd::routing::objective_from(Json::parse(settings));
    Json value;
    for (const auto& field : routeopd::routing::objective_fields()) value[field.name] = field.get(options);
    return answer({{"value", value}, {"needs_pool", options.needs_pool()}});
  } catch (const std::exception& error) {
    return answer({{"error", error.what()}});
  }
}

// What each field means, and the names of the arms.
extern "C" __attribute__((visibility("default"))) const char* routeopd_option_help() {
  Json fields;
  for (const auto& field : routeopd::routing::objective_fields()) fields[field.name] = field.help;
  return answer({{"fields", fields}, {"arms", routeopd::routing::arm_names()}});
}

// A command is a function that declares its options on a CLI11 app and registers a callback. Commands throw;
// main() prints.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "numbers.h"
#include "routeopd/base/fields.h"
#include "routeopd/table/text_table.h"

namespace routeopd::app {

// Output for people or for programs; every command has these options.
struct OutputFlags {
  bool quiet = false;
  bool json = false;
};

inline void add_output_flags(CLI::App& app, OutputFlags& flags) {
  app.add_flag("--quiet", flags.quiet, "No progress and no summary");
  app.add_flag("--json", flags.json, "Print the result as one JSON object on standard output");
}

// How a command's tables are printed, where they may go into a page or a paper.
inline void add_table_flags(CLI::App& app, table::TableFormat& format) {
  const auto set = [&](const char* name, table::TableFormat chosen, const char* help) {
    return app.add_flag_callback(name, [&format, chosen] { format = chosen; }, help);
  };
  set("--markdown", table::TableFormat::kMarkdown, "Print tables as Markdown")
      ->excludes(set("--latex", table::TableFormat::kLatex, "Print tables as LaTeX (booktabs)"));
}

// The one file that a command makes.
struct OutArgument {
  std::string path;
  bool overwrite = false;
  bool is_stream() const { return path == "-"; }
};

// For every command that makes one file.
inline void add_overwrite_flag(CLI::App& app, bool& overwrite) {
  app.add_flag("--overwrite", overwrite, "Replace a file that is there, once the new one is whole");
}

inline CLI::Option* add_out_option(CLI::App& app, OutArgument& out, const std::string& help) {
  add_overwrite_flag(app, out.overwrite);
  CLI::Option* const option = app.add_option("--out", out.path, help);
  return out.path.empty() ? option : option->capture_default_str();
}

// Throws when a command would write over what it reads.
inline void refuse_same_file(const std::string& in, const std::string& out) {
  std::error_code ignored;
  const std::string read = in == "-" ? "/dev/stdin" : in;  // the stream may be a file
  if (out != "-" && std::filesystem::equivalent(read, out, ignored))
    throw UserError("--out: {} is what is read; choose another name", out);
}

// Like CLI::Range, but refuses NaN.
inline CLI::Validator between(double low, double high) {
  return {[low, high](const std::string& word) {
            double value = 0;
            const bool read = CLI::detail::lexical_cast(word, value);  // of a word that read_words() left
            if (read && value >= low && value <= high) return std::string();
            return fmt::format("expected a number from {} to {}, got {}", low, high, word);
          },
          "", "BETWEEN"};
}

// How problems are asked and responses sampled, for every command that generates.
inline void add_decoding_options(CLI::App& app, std::string& prompt_template, double& temperature,
                                 double& top_p) {
  app.add_option("--template", prompt_template, "How a problem is asked: chat, raw, or a text with {problem}")
      ->capture_default_str();
  app.add_option("--temperature", temperature, "0 is greedy; log-probabilities are at temperature 1 always")
      ->check(between(0, 100))
      ->capture_default_str();
  app.add_option("--top-p", top_p, "Share of the most likely ids that is sampled from")
      ->check(between(1e-6, 1))
      ->capture_default_str();
}

// What the engine may hold, for commands that write.
inline void add_engine_memory_options(CLI::App& app, std::uint64_t& kv_memory, std::string& weights) {
  app.add_option("--kv-memory", kv_memory,
                 "Memory for keys and values, such as 512MB or 8GB; 0: a quarter of what is free")
      ->transform(size_in_bytes())
      ->check(CLI::Range(0.0, 1e15))
      ->capture_default_str();
  app.add_option(
         "--weights", weights,
         "How weights are held: exact (bfloat16 where that loses nothing, the same answers in less time), "
         "float32, or bfloat16 (rounded)")
      ->check(CLI::IsMember({"exact", "float32", "bfloat16"}))
      ->capture_default_str();
}

// NAME=FILE of --suite, or FILE alone under its stem.
inline std::pair<std::string, std::string> suite_argument(const std::string& word) {
  const std::size_t equals = word.find('=');
  std::pair<std::string, std::string> suite =
      equals == std::string::npos ? std::pair(std::filesystem::path(word).stem().string(), word)
                                  : std::pair(word.substr(0, equals), word.substr(equals + 1));
  if (suite.first.empty() || suite.second.empty()) throw UsageError("--suite {}: expected NAME=FILE", word);
  return suite;
}

// Declares an option for every field of a table; the given values are collected in `said` as a JSON object.
template <class Struct>
void add_fields(CLI::App& app, const Fields<Struct>& fields, Json& said) {
  said = Json::object();
  const Struct defaults{};
  for (const Field<Struct>& field : fields) {
    std::string names = "--" + field.name;
    if (std::string dashed = field.name; dashed.find('_') != std::string::npos) {
      for (char& c : dashed) c = c == '_' ? '-' : c;
      names += ",--" + dashed;
    }
    const std::string& name = field.name;
    const auto take = [&said, name, set = field.set](const std::string& word) {
      said[name] = value_of_word(word);
      try {  // what no file can change is refused here, as bad usage
        Struct alone{};
        set(alone, said[name]);
      } catch (const UserError& error) {
        throw CLI::ValidationError("--" + name, error.what());
      }
    };
    app.add_option_function<std::string>(names, take, field.help)
        ->default_str(shown(field.get(defaults)))
        ->type_name("");
  }
}

}  // namespace routeopd::app

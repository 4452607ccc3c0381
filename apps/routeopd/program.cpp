// One table of commands; each is a file cmd_NAME.cpp with a function add_NAME(), and a line here.
// SPDX-License-Identifier: Apache-2.0
#include "program.h"

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "numbers.h"
#include "routeopd/base/bus_error.h"
#include "routeopd/base/error.h"
#include "routeopd/base/fields.h"
#include "routeopd/base/interrupt.h"
#include "routeopd/base/utf8.h"
#include "routeopd/ranks/group.h"
#include "routeopd/table/visible_text.h"

#define ROUTEOPD_COMMANDS(ENTRY)                                                           \
  ENTRY(train, "A distillation run: two checkpoints and prompts in, a better student out") \
  ENTRY(plan, "A run on paper: memory, seconds and GPU-hours on devices you may not have") \
  ENTRY(inspect, "What a model directory holds: architecture, sizes, tokenizer, template") \
  ENTRY(check, "May this teacher teach this student? The compatibility gate")              \
  ENTRY(tokenize, "Text to ids, ids to text, chats to both")                               \
  ENTRY(generate, "Batched sampling from a model")                                         \
  ENTRY(score, "Log-probabilities of given sequences")                                     \
  ENTRY(serve, "An OpenAI-compatible server on the local engine, with exact scoring")      \
  ENTRY(convert, "A model directory in another type or in other shards")                   \
  ENTRY(eval, "Sample, grade and summarise suites of problems")                            \
  ENTRY(grade, "Given responses against their answers: extracted, correct, format")        \
  ENTRY(explain, "One response, token by token: what would be moved where, and why")       \
  ENTRY(compare, "Two evaluations, paired: contrast, interval, transitions")               \
  ENTRY(decontaminate, "Test problems in a training file: a report, and a cleaned file")   \
  ENTRY(judge, "The error taxonomy: what went wrong in each response, by a blinded judge") \
  ENTRY(probe, "A frozen bank of states, and what an update would do to them")             \
  ENTRY(report, "One page with tables and figures from the files of runs and studies")     \
  ENTRY(lab, "The laboratory: a small pair from nothing")                                  \
  ENTRY(study, "The paper's study on a laboratory pair or any other")                      \
  ENTRY(route, "The routing operator alone, on given logits")                              \
  ENTRY(bench, "Our speed as ratios, both sides measured in the same run")

namespace routeopd::app {

#define DECLARE(name, summary) void add_##name(CLI::App& app);
ROUTEOPD_COMMANDS(DECLARE)

void print_error(std::string message) {
  constexpr std::size_t kLongest = 1000;
  for (char& c : message) c = static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  if (message.size() > kLongest) message = std::string(utf8_head(message, kLongest)) + " …";
  message = table::visible(message);
  const ranks::Group& group = ranks::world();
  const std::string who = group.alone() ? "" : fmt::format("rank {}: ", group.rank());
  std::fprintf(stderr, "routeopd: %s%s\n", who.c_str(), message.c_str());
}

namespace {

// A stream that the caller closed: the next file that is opened would take its number, and what is printed
// would go into that file. Reading and writing such a stream fails as before; nobody reads the errors.
void open_standard_streams() {
  for (const auto& [stream, mode] : {std::pair(STDIN_FILENO, O_WRONLY), std::pair(STDOUT_FILENO, O_RDONLY),
                                     std::pair(STDERR_FILENO, O_WRONLY)}) {
    if (::fcntl(stream, F_GETFD) == -1 && errno == EBADF)
      ::open("/dev/null", mode);  // takes the lowest number
  }
}

void flush_output() {
  if (!std::cout.flush() || std::fflush(stdout) != 0)
    throw UserError("standard output: cannot be written; is the disk full?");
}

int run(int argc, char** argv) {
  CLI::App app("RouteOPD: on-policy distillation as explicit probability transport", "routeopd");
  app.set_version_flag("--version", "routeopd " ROUTEOPD_VERSION);
  app.require_subcommand(1);
  app.footer("`routeopd COMMAND --help` shows a command's options and an example.");
#define ADD(name, summary) add_##name(*app.add_subcommand(#name, summary));
  ROUTEOPD_COMMANDS(ADD)
  read_words(app);

  std::vector<std::string> names;
#define NAME(name, summary) names.emplace_back(#name);
  ROUTEOPD_COMMANDS(NAME)
  if (argc > 1 && argv[1][0] != '-' && std::find(names.begin(), names.end(), argv[1]) == names.end()) {
    print_error(fmt::format("{}: no such command; did you mean {}? `routeopd --help` lists all", argv[1],
                            nearest_name(argv[1], names)));
    return 2;
  }
  try {
    try {
      app.parse(argc, argv);
    } catch (const CLI::Success& wanted) {  // --help, --version
      app.exit(wanted);                     // prints
    }
    flush_output();
    return 0;
  } catch (const CLI::ParseError& error) {
    print_error(std::string(error.what()) + "; see `routeopd --help` or `routeopd COMMAND --help`");
    return 2;
  } catch (const Interrupted& stop) {
    if (ranks::world().leads()) print_error("interrupted; nothing was left half-written");
    return 128 + stop.signal();
  } catch (const UsageError& error) {
    print_error(error.what());
    return 2;
  } catch (const UserError& error) {
    print_error(error.what());
    return 1;
  } catch (const std::exception& error) {  // the disk, memory, LibTorch
    print_error(std::string("failed: ") + error.what());
    return 1;
  }
}

}  // namespace

int run_program(int argc, char** argv) {
  try {
    catch_interrupts();
    catch_bus_errors();
    open_standard_streams();
    return run(argc, argv);
  } catch (const std::exception& error) {  // while the commands were being declared
    std::fprintf(stderr, "routeopd: failed: %s\n", error.what());
    return 1;
  }
}

}  // namespace routeopd::app

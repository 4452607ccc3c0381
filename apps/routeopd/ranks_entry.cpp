// The door of librouteopd.so: a command on one of the processes that torchrun started (scripts/ranks.py).
// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <string>

#include "program.h"
#include "routeopd/base/error.h"
#include "routeopd/ranks/process_group.h"

// Runs `argv` (the program's name first) together with the other ranks of the process group of that name,
// which torch.distributed has made in this process. Returns the exit code.
extern "C" __attribute__((visibility("default"))) int routeopd_ranks(const char* group, int argc,
                                                                     char** argv) {
  using namespace routeopd;
  try {
    ranks::join(ranks::make_process_group(group));
    const std::string command = argc > 1 ? argv[1] : "";
    if (command != "train" && command != "eval")
      throw UserError("{}: runs in one process; expected train or eval on several ranks, try `routeopd {}`",
                      command.empty() ? "no command" : command, command.empty() ? "--help" : command);
  } catch (const std::exception& error) {
    app::print_error(error.what());
    return 2;
  }
  return app::run_program(argc, argv);
}

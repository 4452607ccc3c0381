// The program behind its two doors: main(), and routeopd_ranks() for the processes of torchrun.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace routeopd::app {

// Runs one command and returns the exit code; errors are printed.
int run_program(int argc, char** argv);

// One line of bounded length on standard error, whatever a file had in it.
void print_error(std::string message);

}  // namespace routeopd::app

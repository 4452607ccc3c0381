// routeopd: on-policy distillation with explicit probability transport.
// SPDX-License-Identifier: Apache-2.0
#include "program.h"

int main(int argc, char** argv) {
  return routeopd::app::run_program(argc, argv);
}

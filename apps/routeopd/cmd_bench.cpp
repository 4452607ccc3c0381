#include "command.h"
namespace routeopd::app {
void add_bench(CLI::App&) {}
}  // namespace routeopd::app

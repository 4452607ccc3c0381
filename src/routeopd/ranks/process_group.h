// A group of processes that torch's own process groups connect: Gloo, or NCCL, as whoever made it chose.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "routeopd/ranks/group.h"

namespace routeopd::ranks {

// The group that torch.distributed has under this name in this process. Throws UserError where there is none.
std::unique_ptr<Group> make_process_group(const std::string& name);

}  // namespace routeopd::ranks

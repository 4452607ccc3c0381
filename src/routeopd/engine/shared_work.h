// Work of one rank that the engines of all ranks share: an evaluation or a probe asks an engine as if it were
// alone, and each question is dealt to all ranks. Engines answer a prompt with the same bits in any batch, so
// the answers are those of one process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "routeopd/engine/engine.h"
#include "routeopd/ranks/group.h"

namespace routeopd::engine {

// On rank 0 calls `work` with engines that share out what they are asked; the other ranks answer until it
// ends. `engines` are local ones over the same weights on every rank, in the same order. Where `work` or an
// engine throws, every rank throws, as ranks::together() says it. Alone, `work` gets the engines themselves.
using SharedWork = std::function<void(const std::vector<Engine*>& engines)>;
void share_work(ranks::Group& group, const std::vector<Engine*>& engines, const SharedWork& work);

}  // namespace routeopd::engine

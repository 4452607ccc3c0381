// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/remote/server_api.h"

namespace routeopd::engine {

std::unique_ptr<ServerApi> make_sglang_api(std::int32_t /*real_ids*/) {
  throw UserError("sglang: not yet");
}

}  // namespace routeopd::engine

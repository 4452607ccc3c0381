#include "routeopd/engine/remote/server_api.h"
namespace routeopd::engine {
std::unique_ptr<ServerApi> make_vllm_api(std::int32_t) {
  throw UserError("vllm: not yet");
}
std::unique_ptr<ServerApi> make_sglang_api(std::int32_t) {
  throw UserError("sglang: not yet");
}
}  // namespace routeopd::engine

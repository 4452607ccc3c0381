// libFuzzer: any bytes as a bank of probe states. Where they are safetensors, the hash that a bank names of
// itself is made right first: behind it lies what this is about. A bank that is read has states of its own
// responses, with supports and routes in the vocabulary.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "routeopd/base/error.h"
#include "routeopd/base/hashes.h"
#include "routeopd/formats/safetensors.h"
#include "routeopd/probe/bank_file.h"
#include "scratch.h"

namespace {

namespace formats = routeopd::formats;
using routeopd::fuzz::require;

// As bank_file.cpp hashes them.
constexpr std::array kArrays = {"states",
                                "prompt_offsets",
                                "prompt_ids",
                                "prompt_numbers",
                                "response_offsets",
                                "response_ids",
                                "samples",
                                "teacher_hidden",
                                "support_offsets",
                                "support_ids",
                                "student_logits",
                                "teacher_logits",
                                "student_logsumexp",
                                "teacher_logsumexp",
                                "student_entropy",
                                "teacher_entropy",
                                "sources",
                                "destinations",
                                "targets"};

std::string with_its_hash(std::string_view bytes) {
  try {
    formats::SafetensorsIndex index =
        formats::read_safetensors(std::as_bytes(std::span(bytes.data(), bytes.size())));
    if (!index.metadata.contains("routeopd")) return std::string(bytes);
    std::string hashes = routeopd::sha256(index.metadata["routeopd"]);
    for (const char* const name : kArrays) {
      std::string_view values;
      for (const formats::TensorView& tensor : index.tensors)
        if (tensor.name == name)
          values = {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()};
      hashes += name + routeopd::sha256(values);
    }
    index.metadata["sha256"] = routeopd::sha256(hashes);
    return formats::safetensors_bytes(index.tensors, index.metadata);
  } catch (const routeopd::UserError&) {
    return std::string(bytes);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const routeopd::fuzz::Scratch scratch("bank");
  const std::string path =
      scratch.write("bank.safetensors", with_its_hash(routeopd::fuzz::text_of(data, size)));
  try {
    const routeopd::probe::Bank bank = routeopd::probe::read_bank(path);
    require(bank.states() > 0 && bank.sequence_S.size() == bank.states());
    require(bank.frozen.transport_S.size() == bank.states());
    for (std::size_t s = 0; s < bank.states(); ++s) {
      require(bank.states_S[s] < static_cast<std::size_t>(bank.rollout.states()));
      require(static_cast<std::size_t>(bank.sequence_S[s]) < bank.rollout.responses_B.size());
      const routeopd::Response& response =
          bank.rollout.responses_B[static_cast<std::size_t>(bank.sequence_S[s])];
      const auto state = static_cast<std::int64_t>(bank.states_S[s]);
      require(state >= response.first_state && state < response.first_state + response.length);
      for (const std::int32_t id : bank.frozen.transport_S[s].ids) require(id >= 0 && id < bank.real_ids);
    }
    require(bank.frozen.source_SM.size() == bank.states() * static_cast<std::size_t>(bank.frozen.pairs));
    require(bank.teacher_hidden_SX.size(0) == static_cast<std::int64_t>(bank.states()));
  } catch (const routeopd::UserError&) {
  }
  return 0;
}

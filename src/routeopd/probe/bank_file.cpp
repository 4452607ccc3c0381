// The file is untrusted when it is read: every index is checked before it is used.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/probe/bank_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "routeopd/base/error.h"
#include "routeopd/base/fields.h"
#include "routeopd/base/hashes.h"
#include "routeopd/formats/safetensors.h"

namespace routeopd::probe {
namespace {

using formats::TensorType;
using formats::TensorView;

constexpr std::int64_t kMostStates = 1 << 22, kMostIds = 1 << 24, kMostPairsPerState = 1 << 16;

template <class T>
constexpr TensorType kTypeOf = std::is_same_v<T, float>          ? TensorType::kF32
                               : std::is_same_v<T, double>       ? TensorType::kF64
                               : std::is_same_v<T, std::int32_t> ? TensorType::kI32
                                                                 : TensorType::kI64;

template <class T>
TensorView view_of(const char* name, const std::vector<T>& values) {
  return {.name = name,
          .type = kTypeOf<T>,
          .shape = {std::ssize(values)},
          .bytes = std::as_bytes(std::span<const T>(values))};
}

Json objective_json(const routing::ObjectiveOptions& objective) {
  Json settings = Json::object();
  for (const auto& field : routing::objective_fields()) settings[field.name] = field.get(objective);
  return settings;
}

// The contents of the file, as flat arrays.
struct BankArrays {
  std::vector<std::int64_t> states_S, support_offsets_S1, prompt_offsets_P1, first_state_B;
  std::vector<std::int32_t> prompt_ids, id_N, support_ids_L, source_SM, destination_SM, sample_B;
  std::vector<std::int64_t> prompt_number_B;  // address of the random numbers
  std::vector<float> teacher_hidden_SX, student_logits_L, teacher_logits_L, target_SM;
  std::vector<double> student_logsumexp_S, teacher_logsumexp_S, student_entropy_S, teacher_entropy_S;

  template <class Each>
  void each(const Each& f) {
    f("states", states_S);
    f("prompt_offsets", prompt_offsets_P1);
    f("prompt_ids", prompt_ids);
    f("prompt_numbers", prompt_number_B);
    f("response_offsets", first_state_B);
    f("response_ids", id_N);
    f("samples", sample_B);
    f("teacher_hidden", teacher_hidden_SX);
    f("support_offsets", support_offsets_S1);
    f("support_ids", support_ids_L);
    f("student_logits", student_logits_L);
    f("teacher_logits", teacher_logits_L);
    f("student_logsumexp", student_logsumexp_S);
    f("teacher_logsumexp", teacher_logsumexp_S);
    f("student_entropy", student_entropy_S);
    f("teacher_entropy", teacher_entropy_S);
    f("sources", source_SM);
    f("destinations", destination_SM);
    f("targets", target_SM);
  }
};

BankArrays arrays_of(const Bank& bank) {
  BankArrays all;
  const Frozen& frozen = bank.frozen;
  all.states_S.assign(bank.states_S.begin(), bank.states_S.end());
  all.prompt_offsets_P1 = {0};
  for (const auto& ids : bank.rollout.prompt_ids_P) {
    all.prompt_ids.insert(all.prompt_ids.end(), ids.begin(), ids.end());
    all.prompt_offsets_P1.push_back(std::ssize(all.prompt_ids));
  }
  for (const Response& response : bank.rollout.responses_B) {
    const StateAddress& address = bank.rollout.address_N[static_cast<std::size_t>(response.first_state)];
    all.prompt_number_B.push_back(address.prompt);
    all.sample_B.push_back(static_cast<std::int32_t>(address.response));
    all.first_state_B.push_back(response.first_state);
  }
  all.first_state_B.push_back(bank.rollout.states());
  all.id_N = bank.rollout.id_N;
  const at::Tensor hidden = bank.teacher_hidden_SX.contiguous();
  all.teacher_hidden_SX.assign(hidden.const_data_ptr<float>(),
                               hidden.const_data_ptr<float>() + hidden.numel());
  all.support_offsets_S1 = {0};
  for (const auto& state : frozen.transport_S) {
    all.support_ids_L.insert(all.support_ids_L.end(), state.ids.begin(), state.ids.end());
    for (const double z : state.student_logits) all.student_logits_L.push_back(static_cast<float>(z));
    all.support_offsets_S1.push_back(std::ssize(all.support_ids_L));
  }
  all.teacher_logits_L = frozen.teacher_logits_L;
  all.student_logsumexp_S = frozen.student_logsumexp_S;
  all.teacher_logsumexp_S = frozen.teacher_logsumexp_S;
  all.student_entropy_S = frozen.student_entropy_S;
  all.teacher_entropy_S = frozen.teacher_entropy_S;
  all.source_SM = frozen.source_SM;
  all.destination_SM = frozen.destination_SM;
  all.target_SM = frozen.target_SM;
  return all;
}

// SHA-256 of the hashes of what the bank is and of every array with its name.
std::string hash_of(const std::string& about, BankArrays& arrays) {
  std::string hashes = sha256(about);
  arrays.each([&](const char* name, const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    hashes += name + sha256({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  });
  return sha256(hashes);
}

class BankReader {
 public:
  explicit BankReader(const std::filesystem::path& path) : file_(path) {}

  template <class T>
  void read(const char* name, std::vector<T>& values) const {
    const TensorView* const view = file_.find(name);
    if (view == nullptr || view->type != kTypeOf<T> || view->shape.size() != 1)
      fail(fmt::format("expected {} as a vector of {}", name, formats::name_of(kTypeOf<T>)));
    values.resize(view->bytes.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), view->bytes.data(), view->bytes.size());
  }

  std::string metadata(const char* name) const {
    const auto at = file_.metadata().find(name);
    if (at == file_.metadata().end()) fail("it is no bank; `routeopd probe make` writes one");
    return at->second;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw UserError("{}: {}", file_.path().string(), what);
  }
  void need(bool holds, const char* what) const {
    if (!holds) fail(fmt::format("{}; make the bank anew", what));
  }

 private:
  formats::Safetensors file_;
};

// 0 = first, ascending, last = count.
bool are_offsets(const std::vector<std::int64_t>& offsets, std::int64_t count) {
  return !offsets.empty() && offsets.front() == 0 && offsets.back() == count &&
         std::is_sorted(offsets.begin(), offsets.end());
}

void check_arrays(const BankReader& file, const BankArrays& all, std::int64_t real_ids, std::int64_t hidden,
                  std::int64_t pairs) {
  const auto within = [&](const std::vector<std::int32_t>& ids, std::int32_t least) {
    return std::all_of(ids.begin(), ids.end(), [&](std::int32_t id) { return id >= least && id < real_ids; });
  };
  const auto finite = [](const auto& values) {
    return std::all_of(values.begin(), values.end(), [](auto value) { return std::isfinite(value); });
  };
  const std::int64_t states = std::ssize(all.states_S), responses = std::ssize(all.sample_B);
  file.need(states > 0 && states <= kMostStates, "it has no states, or too many");
  file.need(are_offsets(all.first_state_B, std::ssize(all.id_N)) &&
                std::ssize(all.first_state_B) == responses + 1 &&
                std::ssize(all.prompt_offsets_P1) == responses + 1 &&
                std::ssize(all.prompt_number_B) == responses,
            "its responses and prompts do not fit each other");
  for (std::size_t b = 0; b + 1 < all.first_state_B.size(); ++b)
    file.need(all.first_state_B[b] < all.first_state_B[b + 1], "a response of it is empty");
  file.need(are_offsets(all.prompt_offsets_P1, std::ssize(all.prompt_ids)),
            "its prompts do not fit each other");
  for (std::size_t b = 0; b + 1 < all.prompt_offsets_P1.size(); ++b)
    file.need(all.prompt_offsets_P1[b] < all.prompt_offsets_P1[b + 1], "a prompt of it is empty");
  file.need(std::adjacent_find(all.states_S.begin(), all.states_S.end(), std::greater_equal<>()) ==
                    all.states_S.end() &&
                all.states_S.front() >= 0 && all.states_S.back() < std::ssize(all.id_N),
            "its states do not ascend, or lie outside the responses");
  file.need(within(all.id_N, 0) && within(all.prompt_ids, 0) && within(all.support_ids_L, 0) &&
                within(all.source_SM, -1) && within(all.destination_SM, -1),
            "an id of it is not in the vocabulary");
  file.need(std::ssize(all.teacher_hidden_SX) == states * hidden && finite(all.teacher_hidden_SX),
            "its teacher's hidden states do not fit");
  file.need(
      are_offsets(all.support_offsets_S1, std::ssize(all.support_ids_L)) &&
          std::ssize(all.support_offsets_S1) == states + 1 &&
          all.student_logits_L.size() == all.support_ids_L.size() &&
          all.teacher_logits_L.size() == all.support_ids_L.size() && finite(all.student_logits_L) &&
          std::all_of(all.teacher_logits_L.begin(), all.teacher_logits_L.end(),
                      [](float z) { return std::isfinite(z) || z < 0; }),  // -inf: the teacher gives nothing
      "its supports do not fit");
  for (std::size_t s = 0; s + 1 < all.support_offsets_S1.size(); ++s) {
    const auto first = all.support_ids_L.begin() + all.support_offsets_S1[s],
               last = all.support_ids_L.begin() + all.support_offsets_S1[s + 1];
    file.need(first != last && std::adjacent_find(first, last, std::greater_equal<>()) == last,
              "a support of it is empty or does not ascend");
  }
  file.need(std::ssize(all.source_SM) == states * pairs &&
                all.destination_SM.size() == all.source_SM.size() &&
                all.target_SM.size() == all.source_SM.size() && finite(all.target_SM),
            "its routes do not fit");
  for (std::size_t i = 0; i < all.source_SM.size(); ++i)
    file.need((all.source_SM[i] < 0) == (all.destination_SM[i] < 0), "a route of it has one end");
  for (const auto* values :
       {&all.student_logsumexp_S, &all.teacher_logsumexp_S, &all.student_entropy_S, &all.teacher_entropy_S})
    file.need(std::ssize(*values) == states && finite(*values), "its log-partitions or entropies do not fit");
  for (std::size_t b = 0; b < all.prompt_number_B.size(); ++b)
    file.need(all.prompt_number_B[b] >= 0 && all.prompt_number_B[b] < kMostIds && all.sample_B[b] >= 0 &&
                  all.sample_B[b] < 256,
              "an address of its random numbers is out of range");
}

routing::ObjectiveOptions objective_in(const BankReader& file, const Json& settings) {
  try {
    const routing::ObjectiveOptions objective = routing::objective_from(settings);
    check_bank_objective(objective);
    return objective;
  } catch (const UserError& error) {
    file.fail(error.what());
  }
}

void fill_bank(Bank& bank, const BankArrays& all, std::int64_t hidden) {
  Rollout& rollout = bank.rollout;
  rollout.id_N = all.id_N;
  rollout.logprob_N.assign(all.id_N.size(), 0.0F);
  for (std::size_t b = 0; b < all.sample_B.size(); ++b) {
    rollout.prompt_ids_P.emplace_back(all.prompt_ids.begin() + all.prompt_offsets_P1[b],
                                      all.prompt_ids.begin() + all.prompt_offsets_P1[b + 1]);
    const std::int64_t length = all.first_state_B[b + 1] - all.first_state_B[b];
    rollout.responses_B.push_back({.prompt = static_cast<std::int32_t>(b),
                                   .sample = all.sample_B[b],
                                   .first_state = all.first_state_B[b],
                                   .length = length});
    for (std::int64_t position = 0; position < length; ++position)
      rollout.address_N.push_back({.step = 0,
                                   .prompt = static_cast<std::uint32_t>(all.prompt_number_B[b]),
                                   .response = static_cast<std::uint32_t>(all.sample_B[b]),
                                   .position = static_cast<std::uint32_t>(position)});
  }
  std::size_t response = 0;
  Frozen& frozen = bank.frozen;
  for (std::size_t s = 0; s < all.states_S.size(); ++s) {
    bank.states_S.push_back(static_cast<std::size_t>(all.states_S[s]));
    while (all.first_state_B[response + 1] <= all.states_S[s]) ++response;
    bank.sequence_S.push_back(static_cast<std::int32_t>(response));
    const auto first = static_cast<std::size_t>(all.support_offsets_S1[s]),
               last = static_cast<std::size_t>(all.support_offsets_S1[s + 1]);
    const std::span ids(all.support_ids_L);
    const routing::reference::Values student(
        all.student_logits_L.begin() + static_cast<std::ptrdiff_t>(first),
        all.student_logits_L.begin() + static_cast<std::ptrdiff_t>(last)),
        teacher(all.teacher_logits_L.begin() + static_cast<std::ptrdiff_t>(first),
                all.teacher_logits_L.begin() + static_cast<std::ptrdiff_t>(last));
    frozen.transport_S.push_back(routing::reference::transport(
        {ids.begin() + static_cast<std::ptrdiff_t>(first), ids.begin() + static_cast<std::ptrdiff_t>(last)},
        student, teacher, bank.objective));
  }
  frozen.teacher_logits_L = all.teacher_logits_L;
  frozen.student_logsumexp_S = all.student_logsumexp_S;
  frozen.teacher_logsumexp_S = all.teacher_logsumexp_S;
  frozen.student_entropy_S = all.student_entropy_S;
  frozen.teacher_entropy_S = all.teacher_entropy_S;
  frozen.source_SM = all.source_SM;
  frozen.destination_SM = all.destination_SM;
  frozen.target_SM = all.target_SM;
  bank.teacher_hidden_SX = at::tensor(at::ArrayRef<float>(all.teacher_hidden_SX)).reshape({-1, hidden});
}

}  // namespace

void write_bank(Bank& bank, const std::filesystem::path& path) {
  BankArrays arrays = arrays_of(bank);
  const Json about = {{"version", 1},
                      {"student", {{"path", bank.student.path}, {"sha256", bank.student.sha256}}},
                      {"teacher", {{"path", bank.teacher.path}, {"sha256", bank.teacher.sha256}}},
                      {"real_ids", bank.real_ids},
                      {"seed", bank.seed},
                      {"hidden_size", bank.teacher_hidden_SX.size(1)},
                      {"pairs", bank.frozen.pairs},
                      {"objective", objective_json(bank.objective)}};
  const std::string text = about.dump(-1, ' ', false, Json::error_handler_t::replace);
  bank.sha256 = hash_of(text, arrays);
  std::vector<TensorView> tensors;
  arrays.each([&](const char* name, const auto& values) { tensors.push_back(view_of(name, values)); });
  formats::write_safetensors(path, tensors, {{"format", "pt"}, {"routeopd", text}, {"sha256", bank.sha256}});
}

Bank read_bank(const std::filesystem::path& path) {
  const BankReader file(path);
  const std::string text = file.metadata("routeopd");
  Bank bank;
  bank.sha256 = file.metadata("sha256");
  BankArrays arrays;
  arrays.each([&](const char* name, auto& values) { file.read(name, values); });
  if (hash_of(text, arrays) != bank.sha256)
    file.fail("its contents are not those its hash names; was it changed? Make it anew");
  try {
    const Json about = Json::parse(text);
    if (about.at("version") != 1) file.fail("a bank of another version; make it anew");
    bank.student = {about.at("student").at("path"), about.at("student").at("sha256")};
    bank.teacher = {about.at("teacher").at("path"), about.at("teacher").at("sha256")};
    // A number with a fraction, or past the range, would become another one.
    for (const char* const name : {"seed", "real_ids", "hidden_size", "pairs"})
      file.need(about.at(name).is_number_integer(), "a number of it is no whole one");
    bank.seed = about.at("seed");
    bank.objective = objective_in(file, about.at("objective"));
    const std::int64_t real_ids = about.at("real_ids"), hidden = about.at("hidden_size"),
                       pairs = about.at("pairs");
    file.need(real_ids > 0 && real_ids <= kMostIds && hidden > 0 && hidden <= kMostIds && pairs > 0 &&
                  pairs <= kMostPairsPerState,
              "its sizes are out of range");
    file.need(pairs == bank.objective.m, "it has other pairs than its objective draws");
    check_arrays(file, arrays, real_ids, hidden, pairs);
    bank.real_ids = static_cast<std::int32_t>(real_ids);
    bank.frozen.pairs = static_cast<std::int32_t>(pairs);
    fill_bank(bank, arrays, hidden);
  } catch (const nlohmann::json::exception& error) {
    file.fail(fmt::format("what it says of itself cannot be read ({})", error.what()));
  }
  return bank;
}

}  // namespace routeopd::probe

// The state bank: what it freezes, and that its file gives it back or says what is wrong.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/probe/bank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>

#include "bank_testing.h"
#include "routeopd/base/hashes.h"
#include "routeopd/engine/local_engine.h"
#include "routeopd/formats/safetensors.h"
#include "routeopd/probe/bank_file.h"
#include "routeopd/routing/reference_sampling.h"
#include "testing_errors.h"
#include "testing_files.h"

namespace routeopd::probe {
namespace {

namespace reference = routing::reference;

TEST(Bank, FreezesTheModelsOwnValues) {
  const TinyPair pair;
  const Bank bank = tiny_bank(pair);
  ASSERT_EQ(bank.states(), 40U);
  engine::LocalEngine student(pair.student, kTinyIds), teacher(pair.teacher, kTinyIds);
  std::vector<std::int32_t> every;
  for (std::int64_t n = 0; n < bank.rollout.states(); ++n)
    for (std::int32_t id = 0; id < kTinyIds; ++id) every.push_back(id);
  const auto z_student =
      student.score(bank.rollout, {.gather_ids_NG = every, .gather_columns = kTinyIds}).gathered_NG;
  const auto z_teacher =
      teacher.score(bank.rollout, {.gather_ids_NG = every, .gather_columns = kTinyIds}).gathered_NG;
  for (std::size_t s = 0; s < bank.states(); ++s) {
    const auto row = static_cast<std::ptrdiff_t>(bank.states_S[s]) * kTinyIds;
    const reference::Values student_row(z_student.begin() + row, z_student.begin() + row + kTinyIds),
        teacher_row(z_teacher.begin() + row, z_teacher.begin() + row + kTinyIds);
    const reference::Ids ids = reference::support(student_row, teacher_row, 6);
    ASSERT_EQ(bank.frozen.transport_S[s].ids, ids) << s;
    reference::Values on_student, on_teacher;
    for (const std::int32_t id : ids) {
      on_student.push_back(student_row[static_cast<std::size_t>(id)]);
      on_teacher.push_back(teacher_row[static_cast<std::size_t>(id)]);
    }
    const reference::Transport state = reference::transport(ids, on_student, on_teacher, bank.objective);
    // float32 logits of two forwards
    EXPECT_NEAR(bank.frozen.transport_S[s].mass, state.mass, 2e-5);
    EXPECT_NEAR(bank.frozen.teacher_logsumexp_S[s], reference::log_sum_exp(teacher_row), 2e-5);
    double entropy = 0;
    for (const double p : reference::softmax(teacher_row)) entropy -= p * std::log(p);
    EXPECT_NEAR(bank.frozen.teacher_entropy_S[s], entropy, 2e-5);
    const auto pairs = reference::sample_pairs(state, {}, bank.objective, bank.seed,
                                               bank.rollout.address_N[bank.states_S[s]]);
    ASSERT_EQ(pairs.size(), 3U);
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      EXPECT_EQ(bank.frozen.source_SM[s * 3 + i], pairs[i].source);
      EXPECT_EQ(bank.frozen.destination_SM[s * 3 + i], pairs[i].destination);
      EXPECT_NEAR(bank.frozen.target_SM[s * 3 + i], pairs[i].target, 2e-5);
    }
  }
}

TEST(Bank, ResponsesEndBehindTheirLastState) {
  const Bank bank = tiny_bank(TinyPair(), 12);
  std::vector<std::int64_t> last(bank.rollout.responses_B.size(), -1);
  for (std::size_t s = 0; s < bank.states(); ++s) {
    const Response& response = bank.rollout.responses_B[static_cast<std::size_t>(bank.sequence_S[s])];
    const auto place = static_cast<std::int64_t>(bank.states_S[s]) - response.first_state;
    ASSERT_GE(place, 0);
    ASSERT_LT(place, response.length);
    last[static_cast<std::size_t>(bank.sequence_S[s])] = place;
  }
  for (std::size_t b = 0; b < last.size(); ++b) EXPECT_EQ(last[b], bank.rollout.responses_B[b].length - 1);
}

TEST(Bank, ComesBackFromItsFile) {
  const TemporaryDirectory directory;
  Bank bank = tiny_bank(TinyPair());
  bank.student = {"student", "abc"};
  write_bank(bank, directory.path() / "bank");
  const Bank read = read_bank(directory.path() / "bank");
  EXPECT_EQ(read.sha256, bank.sha256);
  EXPECT_EQ(read.sha256.size(), 64U);
  EXPECT_EQ(read.student.sha256, "abc");
  EXPECT_EQ(read.states_S, bank.states_S);
  EXPECT_EQ(read.sequence_S, bank.sequence_S);
  EXPECT_EQ(read.rollout.id_N, bank.rollout.id_N);
  EXPECT_EQ(read.rollout.prompt_ids_P, bank.rollout.prompt_ids_P);
  EXPECT_EQ(read.frozen.source_SM, bank.frozen.source_SM);
  EXPECT_EQ(read.frozen.target_SM, bank.frozen.target_SM);
  EXPECT_EQ(read.objective.k, 6);
  EXPECT_TRUE(at::equal(read.teacher_hidden_SX, bank.teacher_hidden_SX));
  for (std::size_t s = 0; s < bank.states(); ++s) {
    EXPECT_EQ(read.frozen.transport_S[s].ids, bank.frozen.transport_S[s].ids);
    EXPECT_EQ(read.frozen.transport_S[s].mass, bank.frozen.transport_S[s].mass);
    const StateAddress &a = read.rollout.address_N[read.states_S[s]],
                       &b = bank.rollout.address_N[bank.states_S[s]];
    EXPECT_EQ(std::tie(a.prompt, a.response, a.position), std::tie(b.prompt, b.response, b.position));
  }
  // The same bank is the same bytes.
  Bank again = tiny_bank(TinyPair());
  again.student = bank.student;
  write_bank(again, directory.path() / "again");
  EXPECT_EQ(again.sha256, bank.sha256);
}

// The hash covers every byte of the tensors; damage to the header is named.
TEST(Bank, SaysWhenItsFileWasChanged) {
  const TemporaryDirectory directory;
  Bank bank = tiny_bank(TinyPair(), 8);
  const auto path = directory.path() / "bank";
  write_bank(bank, path);
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const std::size_t header =
      static_cast<unsigned char>(bytes[0]) + 256U * static_cast<unsigned char>(bytes[1]) + 8;
  for (std::size_t at = 8; at < bytes.size(); at += at < header ? 37 : 101) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    std::ofstream(path, std::ios::binary) << changed;
    try {
      read_bank(path);
      ADD_FAILURE() << "byte " << at;
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(path.string()));
    }
  }
  std::ofstream(path, std::ios::binary) << bytes.substr(0, bytes.size() - 5);
  EXPECT_THROW(read_bank(path), UserError);
}

// What a bank says of itself under a right hash, with one number replaced.
void write_about(const std::filesystem::path& path, const std::string& name, const Json& value) {
  const formats::Safetensors file(path);
  Json about = Json::parse(file.metadata().at("routeopd"));
  about[name] = value;
  std::string hashes = sha256(about.dump());
  for (const formats::TensorView& tensor : file.tensors())
    hashes += tensor.name + sha256({reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()});
  formats::write_safetensors(path, file.tensors(), {{"routeopd", about.dump()}, {"sha256", sha256(hashes)}});
}

TEST(Bank, SaysWholeNumbersOfItself) {
  const TemporaryDirectory directory;
  Bank bank = tiny_bank(TinyPair(), 8);
  const auto path = directory.path() / "bank";
  write_bank(bank, path);
  write_about(path, "seed", 7);
  EXPECT_EQ(read_bank(path).seed, 7);
  for (const char* const name : {"seed", "real_ids", "hidden_size", "pairs"}) {
    for (const double value : {3.5, -1e300}) {
      write_bank(bank, path);
      write_about(path, name, value);
      EXPECT_THAT([&] { read_bank(path); },
                  testing::ThrowsMessage<UserError>(testing::HasSubstr("no whole one")))
          << name;
    }
  }
}

// What does not fit is refused under a right hash too: a bank may come from anybody.
TEST(Bank, RefusesWhatDoesNotFit) {
  const TemporaryDirectory directory;
  const TinyPair pair;
  const Bank good = tiny_bank(pair, 8);
  const auto path = directory.path() / "bank";
  using Damage = std::function<void(Bank&)>;
  const std::vector<std::pair<std::string, Damage>> damages = {
      {"not in the vocabulary", [](Bank& bank) { bank.frozen.source_SM[0] = kTinyIds; }},
      {"not in the vocabulary", [](Bank& bank) { bank.rollout.id_N[0] = -1; }},
      {"one end", [](Bank& bank) { bank.frozen.destination_SM[0] = -1; }},
      {"do not ascend", [](Bank& bank) { bank.states_S[1] = bank.states_S[0]; }},
      {"outside the responses", [](Bank& bank) { bank.states_S.back() = 1 << 20; }},
      {"supports do not fit", [](Bank& bank) { bank.frozen.teacher_logits_L.pop_back(); }},
      {"supports do not fit", [](Bank& bank) { bank.frozen.teacher_logits_L[0] = NAN; }},
      {"does not ascend",
       [](Bank& bank) { bank.frozen.transport_S[0].ids[1] = bank.frozen.transport_S[0].ids[0]; }},
      {"routes do not fit", [](Bank& bank) { bank.frozen.target_SM.pop_back(); }},
      {"routes do not fit", [](Bank& bank) { bank.frozen.target_SM[0] = INFINITY; }},
      {"entropies do not fit", [](Bank& bank) { bank.frozen.teacher_entropy_S.pop_back(); }},
      {"hidden states do not fit",
       [](Bank& bank) { bank.teacher_hidden_SX = bank.teacher_hidden_SX.clone().fill_(NAN); }},
      {"prompt of it is empty", [](Bank& bank) { bank.rollout.prompt_ids_P[0].clear(); }},
      {"out of range", [](Bank& bank) { bank.real_ids = 0; }},
      {"other pairs", [](Bank& bank) { bank.objective.m = 4; }},
      {"draws pairs",
       [](Bank& bank) { bank.objective = routing::objective_from({{"arm", "sampled_rkl"}}); }}};
  for (const auto& [words, damage] : damages) {
    Bank bank = good;
    damage(bank);
    write_bank(bank, path);
    EXPECT_THAT([&] { read_bank(path); }, testing::ThrowsMessage<UserError>(testing::AllOf(
                                              testing::HasSubstr(path.string()), testing::HasSubstr(words))));
  }
}

TEST(Bank, RefusesWhatItCannotFreeze) {
  const TinyPair pair;
  EXPECT_THAT([&] { tiny_bank(pair, 100000); },
              testing::ThrowsMessage<UserError>(testing::HasSubstr("try more prompts")));
  for (const Json& settings :
       {Json{{"arm", "sampled_rkl"}}, Json{{"pairs", "exact"}}, Json{{"arm", "source_only"}},
        Json{{"arm", "independent_clipping"}}, Json{{"k", "full"}}})
    EXPECT_THROW(tiny_bank(pair, 8, settings), UserError) << settings.dump();
}

}  // namespace
}  // namespace routeopd::probe

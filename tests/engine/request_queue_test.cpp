// Requests of many clients to one engine: whatever else is being served, each gets the bits that it would get
// alone; cancelled, late and refused ones leave nothing behind; no answer mixes two weights.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/request_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <limits>
#include <random>
#include <thread>

#include "routeopd/engine/score_sequences.h"
#include "tiny_models.h"

namespace routeopd::engine {
namespace {

using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

constexpr std::int32_t kQueueIds = 90;

std::vector<std::int32_t> queue_ids(int length, int salt) {
  std::vector<std::int32_t> ids;
  for (int j = 0; j < length; ++j) ids.push_back((13 * j + 5 * length + 7 * salt) % kQueueIds);
  return ids;
}

// Keeps what it is told.
class Client : public Listener {
 public:
  void begun(std::int64_t version) override { begun_at = version; }
  void token(const WrittenToken& one) override {
    tokens.push_back(one.id);
    logprobs.push_back(one.logprob);
    top_ids.insert(top_ids.end(), one.top_ids.begin(), one.top_ids.end());
    ++told;
    if (one.ended) ++told_ends;
  }
  void ended(Outcome outcome) override { done_.set_value(std::move(outcome)); }

  // At most a minute: a test that hangs is a failure.
  Outcome wait() {
    std::future<Outcome> future = done_.get_future();
    if (future.wait_for(std::chrono::seconds(60)) != std::future_status::ready)
      throw std::runtime_error("no answer within a minute");
    return future.get();
  }

  std::int64_t begun_at = -1;
  std::vector<std::int32_t> tokens, top_ids;
  std::vector<float> logprobs;
  std::atomic<int> told = 0, told_ends = 0;

 private:
  std::promise<Outcome> done_;
};

Job write_job(int length, int salt, int n, std::int64_t max_new) {
  Job job{.prompt_ids = queue_ids(length, salt)};
  for (int s = 0; s < n; ++s) job.samples.push_back(s);
  job.number = static_cast<std::uint32_t>(salt);
  job.sampling = {
      .max_new_tokens = max_new, .seed = static_cast<std::uint64_t>(7 + salt), .ignore_eos = true};
  job.capture = {.k = salt % 5, .hidden = salt % 2 == 0, .entropy = salt % 3 == 0};
  return job;
}

Job read_job(int length, int salt) {
  Job job{.prompt_ids = queue_ids(length, salt), .prompt_from = 1, .k = 1 + salt % 7, .gather_columns = 2};
  for (std::int64_t r = 0; r < job.rows(); ++r)
    for (const std::int32_t id : {job.prompt_ids[static_cast<std::size_t>(r + 1)], (salt + 3) % kQueueIds})
      job.gather_ids_RG.push_back(id);
  job.ranks = salt % 2 == 1;
  return job;
}

void expect_equal(const Rollout& got, const Rollout& wanted) {
  EXPECT_EQ(got.id_N, wanted.id_N);
  EXPECT_EQ(got.logprob_N, wanted.logprob_N);
  EXPECT_EQ(got.top_ids_NK, wanted.top_ids_NK);
  EXPECT_EQ(got.top_logits_NK, wanted.top_logits_NK);
  EXPECT_EQ(got.logsumexp_N, wanted.logsumexp_N);
  EXPECT_EQ(got.entropy_N, wanted.entropy_N);
  EXPECT_EQ(got.hidden_NH, wanted.hidden_NH);
}

// What the engine gives a request that is alone, by its own commands.
Rollout alone(LocalEngine& engine, const Job& job) {
  Prompt prompt;
  prompt.number = job.number;
  prompt.ids = job.prompt_ids;
  Sampling sampling = job.sampling;
  sampling.n = static_cast<std::int32_t>(job.samples.size());
  return engine.generate(std::vector{prompt}, sampling, job.capture);
}

class Queue : public ::testing::Test {
 protected:
  model::Model model_ = model::load_model(tiny("student"));
  LocalEngine reference_{model_, kQueueIds};
  std::int64_t block_ = model::KvStorage::block_bytes(model_.config);
};

TEST_F(Queue, SixteenClientsGetTheBitsOfTheirOwnRequestAlone) {
  // Little memory, so that responses are evicted, too.
  LocalEngine engine(model_, kQueueIds, {.step_tokens = 48, .kv_bytes = 12 * block_});
  RequestQueue queue(engine, {});
  struct Exchange {
    std::vector<Job> jobs;
    std::shared_ptr<Client> client;
    Outcome outcome;
    bool cancelled;
  };
  std::mutex mutex;
  std::vector<Exchange> exchanges;
  // Nobody is served before all are there: then memory is short whatever the machine does.
  std::thread gate([&] {
    queue.between_requests(
        [&](LocalEngine&) {
          while (queue.stats().waiting < 16) std::this_thread::sleep_for(milliseconds(1));
        },
        0);
  });
  std::vector<std::thread> clients;
  for (int c = 0; c < 16; ++c) {
    clients.emplace_back([&, c] {
      std::mt19937 random(static_cast<unsigned>(c));
      for (int i = 0; i < 6; ++i) {
        const int salt = 16 * i + c;
        const auto client = std::make_shared<Client>();
        Request request{
            .jobs = {write_job(1 + static_cast<int>(random() % 40), salt, 1 + c % 4, 1 + salt % 30),
                     read_job(2 + static_cast<int>(random() % 40), salt)},
            .listener = client};
        request.jobs[0].tell_tokens = c % 2 == 0;
        std::vector<Job> jobs = request.jobs;
        const auto ticket = queue.submit(std::move(request));
        const bool cancel = i > 0 && random() % 4 == 0;
        if (cancel) {
          std::this_thread::sleep_for(milliseconds(random() % 5));
          queue.cancel(ticket);
        }
        Outcome outcome = client->wait();
        const std::lock_guard lock(mutex);
        exchanges.push_back({std::move(jobs), client, std::move(outcome), cancel});
      }
    });
  }
  for (std::thread& client : clients) client.join();
  gate.join();
  int compared = 0, cancelled = 0;
  for (const Exchange& exchange : exchanges) {
    const Outcome& outcome = exchange.outcome;
    if (outcome.ending == Ending::kCancelled) {
      EXPECT_TRUE(exchange.cancelled);
      ++cancelled;
      continue;
    }
    ASSERT_EQ(outcome.ending, Ending::kDone) << outcome.message;
    const Job &writes = exchange.jobs[0], &reads = exchange.jobs[1];
    const Rollout wanted = alone(reference_, writes);
    expect_equal(outcome.results_J[0].written, wanted);
    if (writes.tell_tokens) {
      EXPECT_EQ(exchange.client->told, wanted.states());
      EXPECT_EQ(exchange.client->told_ends, std::ssize(writes.samples));
    }
    if (writes.tell_tokens && writes.samples.size() == 1) {
      EXPECT_EQ(exchange.client->tokens, wanted.id_N);
      EXPECT_EQ(exchange.client->logprobs, wanted.logprob_N);
      EXPECT_EQ(exchange.client->top_ids, wanted.top_ids_NK);
    }
    GivenSequence sequence{.ids_L = reads.prompt_ids, .gather_R = {}};
    for (std::int64_t r = 0; r < reads.rows(); ++r)
      sequence.gather_R.push_back({reads.gather_ids_RG[static_cast<std::size_t>(2 * r + 1)]});
    const SequenceScores scores = score_sequences(reference_, {&sequence, 1}, reads.k).front();
    const StateValues& read = outcome.results_J[1].read;
    EXPECT_EQ(read.logsumexp_N, scores.logsumexp_R);
    EXPECT_EQ(read.top_ids_NK, scores.top_ids_RK);
    for (std::size_t r = 0; r < scores.logprob_R.size(); ++r) {
      EXPECT_EQ(read.gathered_NG[2 * r] - read.logsumexp_N[r], scores.logprob_R[r]);
      EXPECT_EQ(read.gathered_NG[2 * r + 1] - read.logsumexp_N[r], scores.gathered_R[r][0]);
    }
    ++compared;
  }
  EXPECT_GT(compared, 48);
  EXPECT_GT(cancelled, 0);
  const QueueStats stats = queue.stats();
  EXPECT_EQ(stats.blocks_used, 0);
  EXPECT_EQ(stats.running, 0);
  EXPECT_EQ(stats.waiting, 0);
  EXPECT_EQ(stats.responses_running, 0);
  EXPECT_GT(stats.evictions, 0) << "the test needs memory that does not do";
}

TEST_F(Queue, RanksCountTheIdsThatAreAtLeastAsLikely) {
  LocalEngine engine(model_, kQueueIds);
  RequestQueue queue(engine, {});
  const auto client = std::make_shared<Client>();
  Job job = read_job(100, 1);  // more rows than are held at a time
  job.k = kQueueIds;
  const std::vector<std::int32_t> ids = job.prompt_ids;
  queue.submit({.jobs = {job}, .listener = client});
  const Outcome outcome = client->wait();
  ASSERT_EQ(outcome.ending, Ending::kDone);
  const JobResult& result = outcome.results_J[0];
  ASSERT_EQ(result.rank_R.size(), 99U);
  for (std::size_t r = 0; r < 99; ++r) {
    const auto place = static_cast<std::size_t>(result.rank_R[r] - 1);
    ASSERT_LT(place, static_cast<std::size_t>(kQueueIds));
    EXPECT_EQ(result.read.top_ids_NK[r * kQueueIds + place], ids[r + 1]);
  }
}

TEST_F(Queue, GivenResponsesShareTheirPrompt) {
  LocalEngine engine(model_, kQueueIds);
  RequestQueue queue(engine, {});
  Job job{.prompt_ids = queue_ids(21, 3), .given = {queue_ids(9, 1), {5}, queue_ids(30, 2)}, .k = 3};
  const auto client = std::make_shared<Client>();
  queue.submit({.jobs = {job}, .listener = client});
  const Outcome outcome = client->wait();
  ASSERT_EQ(outcome.ending, Ending::kDone);
  std::size_t row = 0;
  for (const auto& response : job.given) {
    GivenSequence sequence{.ids_L = job.prompt_ids, .gather_R = {}};
    sequence.ids_L.insert(sequence.ids_L.end(), response.begin(), response.end());
    const SequenceScores whole = score_sequences(reference_, {&sequence, 1}, 3).front();
    for (std::size_t i = 0; i < response.size(); ++i, ++row)
      EXPECT_EQ(outcome.results_J[0].read.logsumexp_N[row], whole.logsumexp_R[20 + i]);
  }
  EXPECT_EQ(row, outcome.results_J[0].read.logsumexp_N.size());
  EXPECT_EQ(queue.stats().tokens_read, 21 + 8 + 29);
}

TEST_F(Queue, NoAnswerMixesTwoWeights) {
  model::Model other = model::clone_model(model_), old = model::clone_model(model_);
  for (model::Parameter& parameter : model::parameters(other)) parameter.tensor.mul_(1.25);
  LocalEngine first(old, kQueueIds), second(other, kQueueIds);
  LocalEngine engine(model_, kQueueIds);
  RequestQueue queue(engine, {.weights_version = 5});
  const Job job = write_job(9, 4, 2, 25);
  const Rollout with_old = alone(first, job), with_new = alone(second, job);
  ASSERT_NE(with_old.logprob_N, with_new.logprob_N);

  std::atomic<bool> over = false;
  std::atomic<int> olds = 0, news = 0;
  std::vector<std::thread> clients;
  for (int c = 0; c < 6; ++c) {
    clients.emplace_back([&] {
      while (!over) {
        const auto client = std::make_shared<Client>();
        queue.submit({.jobs = {job}, .listener = client});
        const Outcome outcome = client->wait();
        ASSERT_EQ(outcome.ending, Ending::kDone) << outcome.message;
        EXPECT_EQ(client->begun_at, outcome.weights_version);
        const bool is_new = outcome.weights_version % 2 == 0;
        expect_equal(outcome.results_J[0].written, is_new ? with_new : with_old);
        ++(is_new ? news : olds);
      }
    });
  }
  for (int version = 6; version < 26; ++version) {
    queue.between_requests(
        [&](LocalEngine& running) {
          model::copy_weights(version % 2 == 0 ? other : old, model_);
          running.refresh();
        },
        version);
    std::this_thread::sleep_for(milliseconds(5));
  }
  over = true;
  for (std::thread& client : clients) client.join();
  EXPECT_GT(olds, 0);
  EXPECT_GT(news, 0);
  EXPECT_EQ(queue.stats().weights_version, 25);
}

TEST_F(Queue, AChangeThatFailsLeavesTheVersion) {
  LocalEngine engine(model_, kQueueIds);
  RequestQueue queue(engine, {.weights_version = 3});
  EXPECT_THROW(queue.between_requests([](LocalEngine&) { throw UserError("no such file"); }, 4), UserError);
  EXPECT_EQ(queue.stats().weights_version, 3);
}

TEST_F(Queue, LateRequestsEndAndGiveBackTheirBlocks) {
  LocalEngine engine(model_, kQueueIds, {.kv_bytes = 16 * block_});
  RequestQueue queue(engine, {});
  std::vector<std::shared_ptr<Client>> clients;
  for (int c = 0; c < 4; ++c) {
    clients.push_back(std::make_shared<Client>());
    queue.submit({.jobs = {write_job(3, c, 4, 50)},
                  .deadline = Steady::now() + milliseconds(c % 2 == 0 ? 0 : 60'000),
                  .listener = clients.back()});
  }
  for (int c = 0; c < 4; ++c)
    EXPECT_EQ(clients[static_cast<std::size_t>(c)]->wait().ending,
              c % 2 == 0 ? Ending::kExpired : Ending::kDone);
  EXPECT_EQ(queue.stats().blocks_used, 0);
}

TEST_F(Queue, RefusesWhatCanNeverBeServedAndWhatIsTooMuch) {
  LocalEngine engine(model_, kQueueIds, {.kv_bytes = 4 * block_});
  RequestQueue queue(engine, {.most_requests = 2});
  const auto refused = [&](Job job, const char* words) {
    try {
      queue.submit({.jobs = {std::move(job)}, .listener = std::make_shared<Client>()});
      ADD_FAILURE() << "taken; expected: " << words;
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(words));
    }
  };
  refused(write_job(3, 0, 1, 100), "kv_memory");
  refused(write_job(0, 0, 1, 10), "no tokens");
  Job outside = write_job(3, 0, 1, 10);
  outside.prompt_ids[1] = kQueueIds;
  refused(outside, "outside the vocabulary");
  Job gathers = read_job(5, 2);
  gathers.gather_ids_RG[3] = kQueueIds;
  refused(gathers, "outside the vocabulary");
  Job text = write_job(3, 0, 1, 10);
  text.sampling.stop = {"x"};
  refused(text, "tokenizer");
  refused(write_job(3, 0, 1, 1'000'000), "positions");

  // Two that take long, and a third.
  std::vector<std::shared_ptr<Client>> clients = {std::make_shared<Client>(), std::make_shared<Client>()};
  std::vector<RequestQueue::Ticket> tickets;
  for (const auto& client : clients)
    tickets.push_back(queue.submit({.jobs = {write_job(3, 0, 64, 50)}, .listener = client}));
  EXPECT_THROW(queue.submit({.jobs = {write_job(3, 0, 1, 1)}, .listener = std::make_shared<Client>()}),
               QueueFull);
  for (const auto ticket : tickets) queue.cancel(ticket);
  for (const auto& client : clients) EXPECT_EQ(client->wait().ending, Ending::kCancelled);
  EXPECT_EQ(queue.stats().blocks_used, 0);
}

// A budget for the answers that are being made, at their longest: it is given back when they end.
TEST_F(Queue, AnswersShareABudgetOfMemory) {
  LocalEngine engine(model_, kQueueIds);
  const Job job = write_job(3, 5, 4, 50);  // no top-k, no hidden states: 4 values of 4 bytes a token
  RequestQueue queue(engine, {.most_result_bytes = 4 * 50 * 16});
  for (int i = 0; i < 3; ++i) {
    const auto client = std::make_shared<Client>();
    queue.submit({.jobs = {job}, .listener = client});
    EXPECT_EQ(client->wait().ending, Ending::kDone);
  }
  EXPECT_THROW(queue.submit({.jobs = {job, job}, .listener = std::make_shared<Client>()}), UserError);
  std::promise<void> closed, opened;
  std::thread gate([&] {
    queue.between_requests(
        [&](LocalEngine&) {
          closed.set_value();
          opened.get_future().get();
        },
        0);
  });
  closed.get_future().get();
  const auto first = std::make_shared<Client>();
  queue.submit({.jobs = {job}, .listener = first});
  EXPECT_THROW(queue.submit({.jobs = {job}, .listener = std::make_shared<Client>()}), QueueFull);
  opened.set_value();
  gate.join();
  EXPECT_EQ(first->wait().ending, Ending::kDone);
}

TEST_F(Queue, FailsTheRequestWhoseLogitsAreNotFinite) {
  model::Model broken = model::clone_model(model_);
  broken.embed_VH.select(0, 33).fill_(std::numeric_limits<float>::quiet_NaN());
  if (broken.head_VH.is_same(broken.embed_VH)) broken.head_VH = model_.head_VH.clone();
  LocalEngine engine(broken, kQueueIds);
  RequestQueue queue(engine, {});
  const auto bad = std::make_shared<Client>();
  Job job = write_job(3, 1, 2, 20);
  job.prompt_ids[1] = 33;
  queue.submit({.jobs = {job}, .listener = bad});
  const Outcome outcome = bad->wait();
  EXPECT_EQ(outcome.ending, Ending::kNonFinite);
  EXPECT_THAT(outcome.message, ::testing::HasSubstr("NaN or infinite logits"));
  EXPECT_EQ(queue.stats().blocks_used, 0);
}

TEST_F(Queue, StopLetsWhatIsThereEndWithinItsPatience) {
  LocalEngine engine(model_, kQueueIds);
  const auto patient = std::make_shared<Client>(), endless = std::make_shared<Client>();
  {
    RequestQueue queue(engine, {});
    queue.submit({.jobs = {write_job(3, 1, 2, 20)}, .listener = patient});
    queue.stop(std::chrono::seconds(60));
    EXPECT_THROW(queue.submit({.jobs = {write_job(3, 1, 1, 2)}, .listener = endless}), QueueStopped);
    EXPECT_THROW(queue.between_requests([](LocalEngine&) {}, 1), QueueStopped);
  }
  EXPECT_EQ(patient->wait().ending, Ending::kDone);
  {
    RequestQueue queue(engine, {});
    queue.submit({.jobs = {write_job(3, 1, 256, 50)}, .listener = endless});
    queue.stop(milliseconds(0));
    EXPECT_EQ(queue.stats().blocks_used, 0);
  }
  EXPECT_EQ(endless->wait().ending, Ending::kStopped);
}

}  // namespace
}  // namespace routeopd::engine

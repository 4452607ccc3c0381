// libFuzzer: any bytes as the body of a request to `routeopd serve`; the first chooses the endpoint. The
// jobs that a request becomes have ids, sizes and addresses that an engine can serve, every request gets
// exactly one answer, and none is a fault of the program. Hidden states are gathered by a real engine,
// since that happens while the request is read; the other answers are written from results of the right
// sizes.
// SPDX-License-Identifier: Apache-2.0
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "routeopd/engine/local_engine.h"
#include "routeopd/engine/request_queue.h"
#include "routeopd/formats/ordered_json.h"
#include "routeopd/formats/safetensors.h"
#include "routeopd/model/model_files.h"
#include "routeopd/serve/binary.h"
#include "routeopd/serve/service.h"
#include "routeopd/text/chat_template_files.h"
#include "scratch.h"

namespace {

namespace engine = routeopd::engine;
namespace net = routeopd::net;
namespace serve = routeopd::serve;
using routeopd::fuzz::require;

constexpr std::int32_t kTinyIds = 90;  // fewer than the rows of the embedding
constexpr std::int64_t kLongestWritten = 3;

class KeptReply : public net::Reply {
 public:
  void send(int given, net::Headers, std::string, std::string body) override {
    const std::lock_guard lock(mutex_);
    require(!begun_);
    begun_ = true;
    status = given;
    text = std::move(body);
    end();
  }
  void begin(int given, net::Headers, std::string) override {
    const std::lock_guard lock(mutex_);
    require(!begun_);
    begun_ = true;
    status = given;
  }
  void write(std::string piece) override {
    const std::lock_guard lock(mutex_);
    require(begun_ && !ended_);
    text += piece;
  }
  void finish() override {
    const std::lock_guard lock(mutex_);
    end();
  }
  void drop() override {
    const std::lock_guard lock(mutex_);
    end();
  }
  void on_gone(std::function<void()>) override {}
  void on_done(std::function<void(int, std::int64_t)>) override {}

  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ended_; });
  }

  int status = 0;
  std::string text;

 private:
  void end() {
    require(begun_ && !ended_);
    ended_ = true;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool begun_ = false, ended_ = false;
};

void check_ids(const std::vector<std::int32_t>& ids, std::int32_t least, std::int32_t real_ids) {
  for (const std::int32_t id : ids) require(id >= least && id < real_ids);
}

// What an engine would answer, as far as sizes go.
engine::JobResult answer_of(const engine::Job& job, std::int32_t real_ids, std::int64_t hidden_size) {
  engine::JobResult result;
  const auto fill = [&](std::int64_t rows, std::int32_t k, auto& ids, auto& logits) {
    for (std::int64_t i = 0; i < rows * k; ++i) {
      ids.push_back(static_cast<std::int32_t>(i % k));
      logits.push_back(-static_cast<float>(i % k));
    }
  };
  routeopd::Rollout& written = result.written;
  written.prompt_ids_P.push_back(job.prompt_ids);
  for (const std::int32_t sample : job.samples) {
    const std::int64_t length = std::min(kLongestWritten, job.sampling.max_new_tokens);
    written.responses_B.push_back({.sample = sample, .first_state = written.states(), .length = length});
    for (std::int64_t i = 0; i < length; ++i) {
      written.id_N.push_back(static_cast<std::int32_t>((written.states() * 37 + sample) % real_ids));
      written.logprob_N.push_back(-1.5F);
    }
  }
  if (job.capture.k > 0 || job.capture.hidden) written.logsumexp_N.assign(written.id_N.size(), 2.0F);
  if (job.capture.k > 0) {
    written.columns = std::min(job.capture.k, real_ids);
    fill(written.states(), written.columns, written.top_ids_NK, written.top_logits_NK);
  }
  if (job.capture.entropy) written.entropy_N.assign(written.id_N.size(), 1.0F);
  if (job.capture.hidden) {
    written.hidden_size = hidden_size;
    written.hidden_NH.assign(written.id_N.size() * static_cast<std::size_t>(hidden_size), 0.5F);
  }
  engine::StateValues& read = result.read;
  const auto rows = static_cast<std::size_t>(job.rows());
  read.logsumexp_N.assign(rows, 2.0F);
  if (job.k > 0) {
    read.columns = std::min(job.k, real_ids);
    fill(job.rows(), read.columns, read.top_ids_NK, read.top_logits_NK);
  }
  read.gathered_NG.assign(rows * static_cast<std::size_t>(job.gather_columns), -1.0F);
  if (job.ranks) result.rank_R.assign(rows, 2);
  if (job.hidden) {
    read.hidden_size = hidden_size;
    read.hidden_NH.assign(rows * static_cast<std::size_t>(hidden_size), 0.5F);
  }
  return result;
}

// Keeps requests until their handler has returned, as a queue's own thread mostly does.
struct Engine {
  std::int32_t real_ids = 0;
  std::int64_t hidden_size = 0;
  std::vector<engine::Request> kept{};
  bool fails = false;

  serve::Backend backend() {
    return {[this](engine::Request request) {
              check(request);
              kept.push_back(std::move(request));
              return static_cast<engine::RequestQueue::Ticket>(kept.size());
            },
            [](engine::RequestQueue::Ticket) {}, [] { return engine::QueueStats{.weights_version = 3}; }};
  }

  void check(const engine::Request& request) const {
    require(!request.jobs.empty() && request.listener != nullptr);
    for (const engine::Job& job : request.jobs) {
      require(!job.prompt_ids.empty() && job.number < 1U << 24U && job.sampling.step < 1U << 24U);
      check_ids(job.prompt_ids, 0, real_ids);
      for (const auto& given : job.given) {
        require(!given.empty());
        check_ids(given, 0, real_ids);
      }
      check_ids(job.gather_ids_RG, -1, real_ids);
      require(std::ssize(job.gather_ids_RG) == job.rows() * job.gather_columns);
      require(std::is_sorted(job.samples.begin(), job.samples.end()));
      require(job.samples.empty() || job.sampling.max_new_tokens >= 1);
      require(job.k >= 0 && job.capture.k >= 0 && job.prompt_rows() >= 0 && job.responses() <= 4096);
    }
  }

  void answer() {
    for (engine::Request& request : std::exchange(kept, {})) {
      request.listener->begun(3);
      engine::Outcome outcome;
      outcome.weights_version = 3;
      if (fails) {
        outcome.ending = engine::Ending::kStopped;
        outcome.message = "stopped";
      } else {
        for (std::size_t j = 0; j < request.jobs.size(); ++j) {
          outcome.results_J.push_back(answer_of(request.jobs[j], real_ids, hidden_size));
          if (request.jobs[j].tell_tokens) tell(request, j, outcome.results_J.back().written);
        }
      }
      request.listener->ended(std::move(outcome));
    }
  }

  static void tell(const engine::Request& request, std::size_t job, const routeopd::Rollout& written) {
    for (const routeopd::Response& response : written.responses_B) {
      for (std::int64_t i = 0; i < response.length; ++i) {
        const auto n = static_cast<std::size_t>(response.first_state + i);
        engine::WrittenToken token{.job = job,
                                   .sample = response.sample,
                                   .id = written.id_N[n],
                                   .logprob = -1.5F,
                                   .logsumexp = 2.0F};
        if (written.columns > 0) {
          const auto k = static_cast<std::size_t>(written.columns);
          token.top_ids = std::span(written.top_ids_NK).subspan(n * k, k);
          token.top_logits = std::span(written.top_logits_NK).subspan(n * k, k);
        }
        token.ended = i + 1 == response.length;
        request.listener->token(token);
      }
    }
  }
};

serve::ServiceOptions with_limits(serve::ServedModel model) {
  serve::ServiceOptions options;
  options.model = std::move(model);
  options.version = "0.1.0";
  options.limits.most_n = 16;
  options.limits.most_responses = 64;
  options.limits.most_prompts = 16;
  options.limits.most_values = 1 << 14;
  options.limits.most_tensor_values = 1 << 18;
  options.faults = [](std::string_view) { std::abort(); };
  return options;
}

struct Servers {
  const std::filesystem::path root{ROUTEOPD_FUZZ_ROOT};
  routeopd::tokenizer::Tokenizer tokenizer{root / "lab" / "teacher"};
  routeopd::text::ChatTemplates templates{
      {{"default",
        "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}"
        "{% for call in message.tool_calls %}{{ call | tojson }}{% endfor %}\n{% endfor %}"
        "{% if tools %}tools: {{ tools | tojson }}\n{% endif %}{% if mood %}mood: {{ mood }}\n{% endif %}"
        "{% if add_generation_prompt %}assistant:{% endif %}"}},
      routeopd::OrderedJson::object()};
  Engine text_engine{.real_ids = tokenizer.real_ids()};
  serve::Service text{with_limits({.name = "m",
                                   .root = {},
                                   .tokenizer = &tokenizer,
                                   .templates = &templates,
                                   .real_ids = tokenizer.real_ids(),
                                   .positions = 256,
                                   .eos_ids = {492},
                                   .defaults = {}}),
                      text_engine.backend()};

  routeopd::model::Model model = routeopd::model::load_model(root / "tests/goldens/tiny/student");
  engine::LocalEngine real_engine{model, kTinyIds, {.kv_bytes = 1 << 20}};
  engine::RequestQueue queue{real_engine, {.weights_version = 4}};
  Engine binary_engine{.real_ids = kTinyIds, .hidden_size = model.config.hidden_size};
  serve::Service binary{with_limits({.name = "m",
                                     .root = {},
                                     .tokenizer = nullptr,
                                     .templates = nullptr,
                                     .real_ids = kTinyIds,
                                     .hidden_size = model.config.hidden_size,
                                     .positions = model.config.max_position_embeddings,
                                     .eos_ids = model.config.eos_token_ids,
                                     .defaults = {}}),
                        binary_engine.backend()};

  explicit Servers(const routeopd::fuzz::Scratch& scratch) {
    scratch.write("below/model/config.json", "{}");
    serve::add_binary_routes(binary,
                             {.queue = queue, .model = model, .reload_root = scratch.path() / "below"});
  }
};

constexpr const char* kPaths[] = {"/v1/completions", "/v1/chat/completions", "/tokenize",  "/detokenize",
                                  "/v1/score",       "/v1/generate",         "/v1/gather", "/v1/reload"};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const routeopd::fuzz::Scratch scratch("server");
  static Servers* const servers = new Servers(scratch);  // torch's threads outlive static objects
  if (size == 0) return 0;
  const std::size_t which = data[0] & 7U;
  serve::Service& service = which < 4 ? servers->text : servers->binary;
  Engine& answering = which < 4 ? servers->text_engine : servers->binary_engine;
  answering.fails = (data[0] & 8U) != 0;
  net::IncomingRequest request;
  request.method = "POST";
  request.path = kPaths[which];
  request.body = std::string(routeopd::fuzz::text_of(data + 1, size - 1));
  request.arrived = std::chrono::steady_clock::now();
  const auto reply = std::make_shared<KeptReply>();
  service.handler()(std::move(request), reply);
  answering.answer();
  reply->wait();
  require(reply->status == 200 || (reply->status >= 400 && reply->status < 500) ||
          (reply->status == 503 && answering.fails));
  if (reply->status != 200) {
    const auto body = routeopd::formats::parse_ordered_json(reply->text, "answer");
    require(body.contains("error") && body["error"].contains("message"));
  } else if (which >= 4 && which < 7) {
    routeopd::formats::read_safetensors(std::as_bytes(std::span(reply->text.data(), reply->text.size())));
  }
  return 0;
}

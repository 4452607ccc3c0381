// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/shared_work.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "routeopd/ranks/archive.h"

namespace routeopd {

template <class Archive>
void fields(Archive& archive, Prompt& prompt) {
  archive(prompt.id, prompt.number, prompt.ids);
}

template <class Archive>
void fields(Archive& archive, Rollout& rollout) {
  archive(rollout.prompt_ids_P, rollout.responses_B, rollout.id_N, rollout.logprob_N, rollout.columns,
          rollout.top_ids_NK, rollout.top_logits_NK, rollout.logsumexp_N, rollout.entropy_N,
          rollout.hidden_size, rollout.hidden_NH);
}

}  // namespace routeopd

namespace routeopd::engine {

template <class Archive>
void fields(Archive& archive, Sampling& sampling) {
  archive(sampling.n, sampling.decoding, sampling.max_new_tokens, sampling.seed, sampling.step, sampling.stop,
          sampling.ignore_eos, sampling.samples_P);
}

template <class Archive>
void fields(Archive& archive, StateValues& values) {
  archive(values.columns, values.top_ids_NK, values.top_logits_NK, values.logsumexp_N, values.gathered_NG,
          values.hidden_size, values.hidden_NH, values.tokens_read);
}

namespace {

// Responses of a rank between two exchanges: enough to fill its batches, few enough that a stopped evaluation
// loses little.
constexpr std::int64_t kRoundResponses = 256;

enum class Ask : std::uint8_t { kEnd, kWrite, kRead };

// What rank 0 asks of all.
struct Question {
  Ask ask = Ask::kEnd;
  std::uint64_t engine = 0;

  // kWrite
  std::vector<Prompt> prompts;
  Sampling sampling;
  Capture capture;

  // kRead
  Rollout rollout;
  std::int32_t k = 0;
  std::vector<std::int32_t> gather_ids_NG;
  std::int64_t gather_columns = 0;
  bool hidden = false;
};

template <class Archive>
void fields(Archive& archive, Question& question) {
  archive(question.ask, question.engine, question.prompts, question.sampling, question.capture,
          question.rollout, question.k, question.gather_ids_NG, question.gather_columns, question.hidden);
}

template <class T>
void append(std::vector<T>& all, const std::vector<T>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

// Rows [first, first + count) of `width` values.
template <class T>
void append_rows(std::vector<T>& all, const std::vector<T>& rows, std::int64_t first, std::int64_t count,
                 std::int64_t width) {
  if (rows.empty()) return;
  all.insert(all.end(), rows.begin() + first * width, rows.begin() + (first + count) * width);
}

// Adds response `b` of a rank's rollout to `all`, as an answer to prompt `prompt`.
void append_response(Rollout& all, const Rollout& part, std::size_t b, std::int32_t prompt) {
  Response response = part.responses_B[b];
  const std::int64_t first = response.first_state, count = response.length;
  response.prompt = prompt;
  response.first_state = all.states();
  all.responses_B.push_back(response);
  all.columns = part.columns;
  all.hidden_size = part.hidden_size;
  append_rows(all.id_N, part.id_N, first, count, 1);
  append_rows(all.logprob_N, part.logprob_N, first, count, 1);
  append_rows(all.top_ids_NK, part.top_ids_NK, first, count, part.columns);
  append_rows(all.top_logits_NK, part.top_logits_NK, first, count, part.columns);
  append_rows(all.logsumexp_N, part.logsumexp_N, first, count, 1);
  append_rows(all.entropy_N, part.entropy_N, first, count, 1);
  append_rows(all.hidden_NH, part.hidden_NH, first, count, part.hidden_size);
}

// The prompts are dealt in turn: rank r has r, r + size, …
Question share_to_write(const Question& question, const ranks::Group& group) {
  Question own = question;
  own.prompts.clear();
  own.sampling.samples_P.clear();
  const auto step = static_cast<std::size_t>(group.size());
  for (std::size_t p = static_cast<std::size_t>(group.rank()); p < question.prompts.size(); p += step) {
    own.prompts.push_back(question.prompts[p]);
    if (!question.sampling.samples_P.empty())
      own.sampling.samples_P.push_back(question.sampling.samples_P[p]);
  }
  return own;
}

// Responses [B r / size, B (r + 1) / size) of a rollout, and the ids asked for at their states.
Question share_to_read(const Question& question, const ranks::Group& group) {
  Question own;
  own.k = question.k;
  own.gather_columns = question.gather_columns;
  own.hidden = question.hidden;
  own.rollout.prompt_ids_P = question.rollout.prompt_ids_P;
  const auto size = static_cast<std::size_t>(group.size()), rank = static_cast<std::size_t>(group.rank());
  const std::size_t responses = question.rollout.responses_B.size();
  for (std::size_t b = responses * rank / size; b < responses * (rank + 1) / size; ++b) {
    const Response& response = question.rollout.responses_B[b];
    append_response(own.rollout, question.rollout, b, response.prompt);
    append_rows(own.gather_ids_NG, question.gather_ids_NG, response.first_state, response.length,
                question.gather_columns);
  }
  return own;
}

StateValues read(Engine& engine, const Question& own) {
  if (own.rollout.responses_B.empty()) return {};
  return engine.score(own.rollout, {.k = own.k,
                                    .gather_ids_NG = own.gather_ids_NG,
                                    .gather_columns = own.gather_columns,
                                    .hidden = own.hidden});
}

// The other ranks' side: answers until rank 0 has no more questions.
void answer_questions(ranks::Group& group, const std::vector<Engine*>& engines) {
  while (true) {
    const auto question = ranks::unpacked<Question>(group.gather("").front());
    if (question.ask == Ask::kEnd) return;
    Engine& engine = *engines.at(question.engine);
    std::string answer;
    ranks::together(group, [&] {
      if (question.ask == Ask::kWrite) {
        const Question own = share_to_write(question, group);
        if (!own.prompts.empty())
          answer = ranks::packed(engine.generate(own.prompts, own.sampling, question.capture));
      } else {
        answer = ranks::packed(read(engine, share_to_read(question, group)));
      }
    });
    group.gather(answer);
  }
}

// Rank 0's side.
class SharedEngine : public Engine {
 public:
  SharedEngine(ranks::Group& group, Engine& own, std::size_t number, bool& left)
      : group_(group), own_(own), number_(number), left_(left) {}

  void refresh() override { own_.refresh(); }
  std::int32_t real_ids() const override { return own_.real_ids(); }
  Capabilities capabilities() const override { return own_.capabilities(); }
  std::string name() const override { return own_.name(); }

 protected:
  Rollout write_responses(std::span<const Prompt> prompts, const Sampling& sampling, const Capture& capture,
                          const Watch& watch) override {
    const auto round =
        static_cast<std::size_t>(std::max<std::int64_t>(1, kRoundResponses / sampling.n) * group_.size());
    Rollout all;
    for (const Prompt& prompt : prompts) all.prompt_ids_P.push_back(prompt.ids);
    Progress told{watch, 0, 0};
    for (std::size_t p = 0; p < prompts.size(); ++p)
      told.total += sampling.samples_P.empty() ? sampling.n : std::ssize(sampling.samples_P[p]);
    for (std::size_t first = 0; first < prompts.size(); first += round)
      write_round(prompts.subspan(first, std::min(round, prompts.size() - first)), first, sampling, capture,
                  told, all);
    return all;
  }

  Answer read_responses(const Rollout& rollout, const ScoreRequest& request) override {
    Question question;
    question.ask = Ask::kRead;
    question.engine = number_;
    question.rollout.prompt_ids_P = rollout.prompt_ids_P;
    question.rollout.responses_B = rollout.responses_B;
    question.rollout.id_N = rollout.id_N;
    question.k = request.k;
    question.gather_ids_NG.assign(request.gather_ids_NG.begin(), request.gather_ids_NG.end());
    question.gather_columns = request.gather_columns;
    question.hidden = request.hidden;
    const auto answers =
        answers_to(question, [&] { return ranks::packed(read(own_, share_to_read(question, group_))); });
    Answer answer = answer_about(rollout);
    for (const std::string& bytes : answers) {
      const auto part = ranks::unpacked<StateValues>(bytes);
      StateValues& all = answer.values;
      all.columns = std::max(all.columns, part.columns);
      all.hidden_size = std::max(all.hidden_size, part.hidden_size);
      all.tokens_read += part.tokens_read;
      append(all.top_ids_NK, part.top_ids_NK);
      append(all.top_logits_NK, part.top_logits_NK);
      append(all.logsumexp_N, part.logsumexp_N);
      append(all.gathered_NG, part.gathered_NG);
      append(all.hidden_NH, part.hidden_NH);
    }
    return answer;
  }

  // From hidden states that rank 0 has.
  Answer gather_values(const Rollout& rollout, std::span<const std::int32_t> ids_NG,
                       std::int64_t columns) override {
    Answer answer = answer_about(rollout);
    answer.values = own_.gather(rollout, ids_NG, columns);
    answer.values.validity_N.clear();
    return answer;
  }

 private:
  struct Progress {
    const Watch& watch;
    std::int64_t done, total;
  };

  static Answer answer_about(const Rollout& rollout) {
    Answer answer;
    for (const Response& response : rollout.responses_B) answer.rows_B.push_back(response.length);
    answer.id_N = rollout.id_N;
    return answer;
  }

  // Asks all ranks; `own` is this one's part. Once a rank throws, all of them have left the work.
  template <class Own>
  std::vector<std::string> answers_to(const Question& question, const Own& own) {
    group_.gather(ranks::packed(question));
    std::string answer;
    left_ = true;
    ranks::together(group_, [&] { answer = own(); });
    left_ = false;
    return group_.gather(answer);
  }

  // The responses to prompts [first, first + prompts.size()) of those that were asked.
  void write_round(std::span<const Prompt> prompts, std::size_t first, const Sampling& sampling,
                   const Capture& capture, Progress& told, Rollout& all) {
    Question question;
    question.ask = Ask::kWrite;
    question.engine = number_;
    question.prompts.assign(prompts.begin(), prompts.end());
    question.sampling = sampling;
    question.sampling.discard = false;
    if (!sampling.samples_P.empty())
      question.sampling.samples_P.assign(
          sampling.samples_P.begin() + static_cast<std::ptrdiff_t>(first),
          sampling.samples_P.begin() + static_cast<std::ptrdiff_t>(first + prompts.size()));
    question.capture = capture;
    const auto size = static_cast<std::size_t>(group_.size());
    const auto tell = [&](const Rollout& part, std::size_t b, std::size_t rank) {
      if (!told.watch) return;
      const auto place = static_cast<std::size_t>(part.responses_B[b].prompt) * size + rank;
      Rollout one;
      append_response(one, part, b, static_cast<std::int32_t>(first + place));
      told.watch(++told.done, told.total, one);
    };
    const auto write = [&] {
      const Question own = share_to_write(question, group_);
      const Watch watch = [&](std::int64_t, std::int64_t, const Rollout& response) { tell(response, 0, 0); };
      return ranks::packed(own_.generate(own.prompts, own.sampling, capture, watch));
    };
    std::vector<Rollout> parts;
    for (const std::string& bytes : answers_to(question, write))
      parts.push_back(bytes.empty() ? Rollout() : ranks::unpacked<Rollout>(bytes));
    for (std::size_t rank = 1; rank < parts.size(); ++rank)
      for (std::size_t b = 0; b < parts[rank].responses_B.size(); ++b) tell(parts[rank], b, rank);
    if (sampling.discard) return;
    std::vector<std::size_t> next(size, 0);  // response of each rank
    for (std::size_t p = 0; p < prompts.size(); ++p) {
      const Rollout& part = parts[p % size];
      std::size_t& b = next[p % size];
      for (; b < part.responses_B.size() && static_cast<std::size_t>(part.responses_B[b].prompt) == p / size;
           ++b)
        append_response(all, part, b, static_cast<std::int32_t>(first + p));
    }
  }

  ranks::Group& group_;
  Engine& own_;
  std::size_t number_;
  bool& left_;
};

}  // namespace

void share_work(ranks::Group& group, const std::vector<Engine*>& engines, const SharedWork& work) {
  if (group.alone()) return work(engines);
  if (!group.leads()) {
    answer_questions(group, engines);
    return ranks::together(group, [] {});
  }
  bool left = false;
  std::vector<std::unique_ptr<SharedEngine>> shared;
  std::vector<Engine*> handed;
  for (std::size_t i = 0; i < engines.size(); ++i)
    handed.push_back(shared.emplace_back(std::make_unique<SharedEngine>(group, *engines[i], i, left)).get());
  std::exception_ptr error;
  try {
    work(handed);
  } catch (...) {
    error = std::current_exception();
  }
  if (left) std::rethrow_exception(error);
  group.gather(ranks::packed(Question{}));
  ranks::together(group, [&] {
    if (error) std::rethrow_exception(error);
  });
}

}  // namespace routeopd::engine

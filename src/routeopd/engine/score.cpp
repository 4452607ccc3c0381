// Scoring: every prompt is read once for its responses, and the response states alone go through the head. Portions of
// responses bound the keys and values that are held, forwards of step_tokens the activations.
//
// Shapes: N states of the rollout, of which C in a forward; K columns of top-k, G ids gathered, H hidden size.
// SPDX-License-Identifier: Apache-2.0
#include <c10/core/GradMode.h>

#include <algorithm>

#include "routeopd/base/error.h"
#include "routeopd/base/interrupt.h"
#include "routeopd/engine/local_engine.h"

namespace routeopd::engine {
namespace {

// Consecutive tokens of one sequence that a portion reads: a prompt, or a response behind its prompt.
struct Passage {
  std::span<const std::int32_t> ids;
  std::int64_t first_position = 0;
  std::vector<std::int32_t> table;
  // Of a response: the passage of its prompt, whose last state is the first of its own.
  std::int64_t prompt = -1;
  std::vector<model::SharedWrite> shared{};  // of a prompt: `token` counts in the passage
};

// Responses [first, end) as passages, prompts before their responses.
struct Portion {
  std::vector<Passage> passages;
  std::int64_t tokens = 0;
  std::int32_t blocks = 0;
  std::size_t end = 0;
};

std::vector<std::int32_t> new_blocks(std::int64_t count, std::int32_t& next) {
  std::vector<std::int32_t> blocks;
  for (std::int64_t i = 0; i < count; ++i) blocks.push_back(next++);
  return blocks;
}

// Of at most `most_blocks` blocks of keys and values, or one response.
Portion portion_of(const Rollout& rollout, std::size_t first, std::int64_t most_blocks) {
  Portion portion;
  std::int32_t prompt = -1;
  std::int64_t prompt_at = -1;
  for (portion.end = first; portion.end < rollout.responses_B.size(); ++portion.end) {
    const Response& response = rollout.responses_B[portion.end];
    const std::vector<std::int32_t>& prompt_ids =
        rollout.prompt_ids_P[static_cast<std::size_t>(response.prompt)];
    const std::int64_t length = std::ssize(prompt_ids),
                       own = response.length - 1;  // the last token predicts nothing
    const bool is_new = response.prompt != prompt;
    const std::int64_t more = own + (is_new ? length : 0);
    const std::int64_t own_blocks =
        own > 0 ? blocks_for(length + own) - length / kernels::kBlockPositions : 0;
    const std::int64_t more_blocks = own_blocks + (is_new ? blocks_for(length) : 0);
    if (portion.end > first && portion.blocks + more_blocks > most_blocks) break;
    portion.tokens += more;
    if (is_new) {
      prompt = response.prompt;
      prompt_at = std::ssize(portion.passages);
      portion.passages.push_back(
          {.ids = prompt_ids, .table = new_blocks(blocks_for(length), portion.blocks)});
    }
    Passage passage{
        .ids = std::span(rollout.id_N)
                   .subspan(static_cast<std::size_t>(response.first_state), static_cast<std::size_t>(own)),
        .first_position = length,
        .table = {},
        .prompt = prompt_at,
        .shared = {}};
    if (own > 0) {
      Passage& before = portion.passages[static_cast<std::size_t>(prompt_at)];
      const std::int64_t whole = length / kernels::kBlockPositions;
      passage.table.assign(before.table.begin(), before.table.begin() + whole);
      const std::vector<std::int32_t> blocks = new_blocks(own_blocks, portion.blocks);
      passage.table.insert(passage.table.end(), blocks.begin(), blocks.end());
      // The block that the prompt fills in part is the response's own: it takes the prompt's last keys and values too.
      for (std::int64_t token = whole * kernels::kBlockPositions; token < length; ++token)
        before.shared.push_back({token, blocks.front()});
    }
    portion.passages.push_back(std::move(passage));
  }
  return portion;
}

// Where a state's hidden vector comes from, in the order of the states.
struct StateSource {
  std::int64_t row = -1;     // of this forward
  std::int64_t prompt = -1;  // or the passage of a prompt whose last state was kept
};

// One forward's share of a portion.
struct Chunk {
  model::TokenBatch batch;
  std::vector<StateSource> states;
  std::vector<std::pair<std::int64_t, std::int64_t>> prompt_ends;  // passage, row
};

// Walks through a portion in chunks of a bounded number of tokens.
class ChunkReader {
 public:
  ChunkReader(const Portion& portion, std::int64_t most_tokens) : portion_(portion), most_(most_tokens) {}

  bool done() const { return at_ == portion_.passages.size(); }

  Chunk next() {
    Chunk chunk;
    while (!done()) {
      const Passage& passage = portion_.passages[at_];
      const std::int64_t left = std::ssize(passage.ids) - read_;
      const std::int64_t count = std::min(left, most_ - chunk.batch.tokens());
      if (count == 0 && left > 0) break;
      if (passage.prompt >= 0 && read_ == 0) chunk.states.push_back({.prompt = passage.prompt});
      if (count > 0) add(chunk, passage, count);
      read_ += count;
      if (read_ < std::ssize(passage.ids)) break;
      ++at_;
      read_ = 0;
    }
    return chunk;
  }

 private:
  void add(Chunk& chunk, const Passage& passage, std::int64_t count) {
    model::TokenBatch& batch = chunk.batch;
    const std::int64_t first =
        batch.add_run(passage.ids.subspan(static_cast<std::size_t>(read_), static_cast<std::size_t>(count)),
                      passage.first_position + read_, passage.table);
    for (const model::SharedWrite& write : passage.shared)
      if (write.token >= read_ && write.token < read_ + count)
        batch.shared_writes.push_back({first + write.token - read_, write.block});
    const auto want = [&](std::int64_t token) {
      batch.wanted_W.push_back(static_cast<std::int32_t>(token));
      return std::ssize(batch.wanted_W) - 1;
    };
    if (passage.prompt >= 0) {
      for (std::int64_t i = 0; i < count; ++i) chunk.states.push_back({.row = want(first + i)});
    } else if (read_ + count == std::ssize(passage.ids)) {
      chunk.prompt_ends.emplace_back(static_cast<std::int64_t>(at_), want(first + count - 1));
    }
  }

  const Portion& portion_;
  std::int64_t most_;
  std::size_t at_ = 0;     // passage
  std::int64_t read_ = 0;  // of its tokens
};

template <class T>
void append(std::vector<T>& all, const at::Tensor& rows) {
  const at::Tensor flat = rows.contiguous();
  const T* const values = flat.const_data_ptr<T>();
  all.insert(all.end(), values, values + flat.numel());
}

}  // namespace

StateValues LocalEngine::score(const Rollout& rollout, const ScoreRequest& request) {
  const c10::NoGradGuard no_grad;
  const std::int64_t states = rollout.states(), h = model_.config.hidden_size;
  ROUTEOPD_INVARIANT(std::ssize(request.gather_ids_NG) == states * request.gather_columns);
  for (const Response& response : rollout.responses_B) {
    const std::int64_t length =
        std::ssize(rollout.prompt_ids_P[static_cast<std::size_t>(response.prompt)]) + response.length;
    if (length > model_.config.max_position_embeddings)
      throw UserError("score: a sequence of {} tokens passes the model's {} positions", length,
                      model_.config.max_position_embeddings);
  }
  const auto outside = [&](std::int32_t id) { return id < 0 || id >= model_.config.vocab_size; };
  for (const std::vector<std::int32_t>& ids : rollout.prompt_ids_P)
    ROUTEOPD_INVARIANT(std::none_of(ids.begin(), ids.end(), outside));
  ROUTEOPD_INVARIANT(std::none_of(rollout.id_N.begin(), rollout.id_N.end(), outside));
  StateValues values;
  values.columns = std::min(request.k, real_ids_);
  values.hidden_size = request.hidden ? h : 0;
  at::Tensor gather_NG;
  if (request.gather_columns > 0) {
    gather_NG = at::from_blob(const_cast<std::int32_t*>(request.gather_ids_NG.data()),
                              {states, request.gather_columns}, at::kInt);
  }
  std::int64_t most_blocks = blocks_for(options_.score_tokens);
  if (options_.kv_bytes > 0)
    most_blocks = std::min(most_blocks, options_.kv_bytes / model::KvStorage::block_bytes(model_.config));
  std::int64_t next_state = 0;
  for (std::size_t first = 0; first < rollout.responses_B.size();) {
    const Portion portion = portion_of(rollout, first, most_blocks);
    first = portion.end;
    prepare(portion.blocks);
    values.tokens_read += portion.tokens;
    std::vector<at::Tensor> prompt_ends(portion.passages.size());
    for (ChunkReader reader(portion, options_.step_tokens); !reader.done();) {
      check_interrupt();
      const Chunk chunk = reader.next();
      at::Tensor hidden_WH;
      if (chunk.batch.tokens() > 0) hidden_WH = decoder_->forward(chunk.batch, *storage_);
      for (const auto& [passage, row] : chunk.prompt_ends)
        prompt_ends[static_cast<std::size_t>(passage)] = hidden_WH[row].clone();
      const std::int64_t count = std::ssize(chunk.states);
      if (count == 0) continue;
      const at::Tensor hidden_CH = at::empty({count, h}, at::kFloat);
      for (std::int64_t i = 0; i < count; ++i) {
        const StateSource& source = chunk.states[static_cast<std::size_t>(i)];
        const float* const from =
            source.row >= 0 ? hidden_WH.const_data_ptr<float>() + source.row * h
                            : prompt_ends[static_cast<std::size_t>(source.prompt)].const_data_ptr<float>();
        std::copy_n(from, h, hidden_CH.data_ptr<float>() + i * h);
      }
      const model::HeadScores scores = head_->score(
          hidden_CH, std::max(values.columns, 1),
          gather_NG.defined() ? gather_NG.slice(0, next_state, next_state + count) : at::Tensor());
      next_state += count;
      if (values.columns > 0) {
        append(values.top_ids_NK, scores.top_ids_TK);
        append(values.top_logits_NK, scores.top_logits_TK);
      }
      append(values.logsumexp_N, scores.logsumexp_T);
      append(values.gathered_NG, scores.gathered_TG);
      if (request.hidden) append(values.hidden_NH, hidden_CH);
    }
  }
  ROUTEOPD_INVARIANT(next_state == states);
  return values;
}

}  // namespace routeopd::engine

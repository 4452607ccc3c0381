// SPDX-License-Identifier: Apache-2.0
#include "routeopd/lab/make.h"

#include <array>
#include <cmath>
#include <utility>

#include "routeopd/base/files.h"
#include "routeopd/decontamination/decontaminate.h"
#include "routeopd/lab/lab_file.h"
#include "routeopd/model/model_files.h"
#include "routeopd/text/prompts.h"
#include "routeopd/tokenizer/byte_level.h"
#include "routeopd/tokenizer/tokenizer.h"
#include "routeopd/train/train.h"

namespace routeopd::lab {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEndOfText = "<|endoftext|>";

void write_json(const fs::path& path, const Json& value) {
  write_file(path, value.dump(2) + "\n");
}

constexpr const char* kTrainFile = "train.jsonl";
constexpr const char* kValidationFile = "validation.jsonl";
constexpr const char* kHeldOutFile = "heldout.jsonl";

void write_problems(const fs::path& path, const Task& task, std::uint64_t seed, Split split,
                    std::int64_t count) {
  constexpr std::array kNamesOfSplits = {"train", "validation", "heldout"};
  AtomicFile file(path);
  for (std::int64_t i = 0; i < count; ++i) {
    const Problem problem = task.make_problem(seed, split, static_cast<std::uint32_t>(i));
    const std::string id = fmt::format("{}-{}", kNamesOfSplits[static_cast<std::size_t>(split)], i);
    file.write(Json{{"id", id}, {"problem", problem.text}, {"answer", problem.answer}}.dump() + "\n");
  }
  file.commit();
}

formats::ModelConfig model_config(std::int64_t hidden, std::int64_t layers, std::int32_t ids,
                                  std::int32_t eos) {
  formats::ModelConfig config;
  config.vocab_size = ids;
  config.hidden_size = hidden;
  config.intermediate_size = hidden * 5 / 2;
  config.num_hidden_layers = layers;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = hidden / 4;
  config.max_position_embeddings = 256;
  config.tie_word_embeddings = true;
  config.eos_token_ids = {eos};
  return config;
}

// A directory with random weights, whose configuration and tokenizer files all later ones carry along.
void write_start(const fs::path& directory, const Task& task, std::int64_t hidden, std::int64_t layers,
                 std::uint64_t seed) {
  fs::create_directories(directory);
  const Json tokenizer = tokenizer_json(task);
  write_json(directory / "tokenizer.json", tokenizer);
  write_json(directory / "tokenizer_config.json", {{"tokenizer_class", "PreTrainedTokenizerFast"},
                                                   {"eos_token", kEndOfText},
                                                   {"pad_token", kEndOfText},
                                                   {"clean_up_tokenization_spaces", false},
                                                   {"model_max_length", 256}});
  const auto eos = tokenizer["added_tokens"][0]["id"].get<std::int32_t>();
  const formats::ModelConfig config = model_config(hidden, layers, eos + 1, eos);
  write_json(directory / "config.json", formats::json_of(config));
  write_json(directory / "generation_config.json", {{"eos_token_id", eos}, {"pad_token_id", eos}});
  model::save_tensors(directory / "model.safetensors", model::parameters(model::random_model(config, seed)));
}

// What one stage of supervised training needs: problems of the training split, each seen once.
std::vector<Prompt> lessons(const Task& task, std::int64_t count, std::uint32_t first, std::uint64_t seed,
                            Writer writer, const tokenizer::Tokenizer& tokenizer) {
  const text::PromptTemplate words(kTemplate);
  const std::int32_t eos = tokenizer.id_of(kEndOfText);
  std::vector<Prompt> prompts;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t number = first + static_cast<std::uint32_t>(i);
    const Problem problem = task.make_problem(seed, Split::kTrain, number);
    Prompt prompt = text::make_prompt(std::to_string(i), static_cast<std::uint32_t>(i),
                                      words.apply(problem.text), tokenizer);
    prompt.response = task.write_solution(problem.text, seed, number, writer);
    prompt.response_ids = tokenizer.encode(prompt.response);
    prompt.response_ids.push_back(eos);
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

// The three files of problems, and the record of a check: which split a problem belongs to depends on its key
// alone, so no problem of one stands in another, but a long one may share most of its words with one of
// another. Such rows are not in train.jsonl.
void write_problem_files(const fs::path& directory, const Task& task, const MakeOptions& options) {
  const std::uint64_t seed = options.seed + 2;  // other problems than the models learn from
  const fs::path all = directory / "problems.jsonl";
  write_problems(all, task, seed, Split::kTrain, options.train_prompts);
  write_problems(directory / kValidationFile, task, seed, Split::kValidation, options.validation_problems);
  write_problems(directory / kHeldOutFile, task, seed, Split::kHeldOut, options.heldout_problems);
  decontamination::DecontaminateOptions check;
  check.train = all.string();
  check.tests = {(directory / kHeldOutFile).string(), (directory / kValidationFile).string()};
  check.out = (directory / kTrainFile).string();
  check.keep_duplicates = check.keep_conflicts = true;
  decontamination::decontaminate(check);
  fs::remove(all);
}

constexpr std::int32_t kBatch = 32;
constexpr std::int64_t kMostProblems = 1 << 24;  // addresses of random numbers
constexpr double kRightRate = 4e-3, kRightBeta2 = 0.98, kMildRate = 1e-3, kBaseRate = 8e-4, kBeta2 = 0.999;

train::Recipe sft_recipe(const fs::path& student, const fs::path& out, std::int64_t steps, double lr,
                         double beta2, std::uint64_t seed) {
  train::Recipe recipe;
  recipe.seed = seed;
  recipe.out = out.string();
  recipe.student.path = student.string();
  recipe.data.prompts = "the laboratory's problems";
  recipe.data.prompt_template = kTemplate;
  recipe.data.shuffle = false;
  recipe.objective = routing::objective_from({{"arm", "sft"}});
  recipe.rollout.prompts_per_step = kBatch;
  recipe.rollout.n = 1;
  recipe.optimizer.lr = lr;
  recipe.optimizer.beta2 = beta2;
  recipe.train.steps = steps;
  recipe.checkpoint.every = 0;
  return recipe;
}

}  // namespace

Json tokenizer_json(const Task& task) {
  Json vocabulary_json = Json::object();
  std::int32_t next = 0;
  for (const std::string& symbol : tokenizer::byte_symbols()) vocabulary_json[symbol] = next++;
  for (const std::string& word : task.vocabulary()) vocabulary_json[tokenizer::spelled(word)] = next++;
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens",
           {{{"id", next},
             {"content", kEndOfText},
             {"single_word", false},
             {"lstrip", false},
             {"rstrip", false},
             {"normalized", false},
             {"special", true}}}},
          {"normalizer", nullptr},
          {"pre_tokenizer",
           {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}}},
          {"post_processor", nullptr},
          {"decoder",
           {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", true},
            {"vocab", vocabulary_json},
            {"merges", Json::array()}}}};
}

void make_laboratory(const fs::path& directory, const Task& task, const MakeOptions& options,
                     const MakeWatch& watch) {
  const std::int64_t longest =
      std::max(options.teacher_steps + options.mild_steps, options.student_steps + options.base_steps);
  if (longest * kBatch > kMostProblems)
    throw UserError("steps: {} of {} problems pass the {} problems that a family can draw; try fewer",
                    longest, kBatch, kMostProblems);
  AtomicDirectory target(directory);
  const fs::path runs = target.path() / "runs", larger = runs / "larger", smaller = runs / "smaller";
  write_start(larger, task, options.teacher_hidden, options.teacher_layers, options.seed);
  write_start(smaller, task, options.student_hidden, options.student_layers, options.seed);
  const tokenizer::Tokenizer tokenizer(larger);

  // A model sees no problem twice. Both begin with the first, so that neither depends on how long the other
  // learns.
  const auto learn = [&](const std::string& what, model::Model& model, const fs::path& files, Writer writer,
                         std::int64_t before, std::int64_t steps, double lr, double beta2) {
    const train::Recipe recipe = sft_recipe(files, runs / what, steps, lr, beta2, options.seed);
    train::Inputs inputs;
    inputs.student = model;
    inputs.real_ids = tokenizer.real_ids();
    inputs.prompts = lessons(task, steps * kBatch, static_cast<std::uint32_t>(before * kBatch), options.seed,
                             writer, tokenizer);
    train::train(recipe, inputs, [&](const StepMetrics& metrics) {
      if (watch) watch(what, metrics.step, steps, metrics.loss.value_or(std::nan("")));
    });
    model = inputs.student;
  };
  model::Model teacher = model::load_model(larger);
  learn("teacher", teacher, larger, Writer::kRight, 0, options.teacher_steps, kRightRate, kRightBeta2);
  if (options.mild_steps > 0)
    learn("teacher, mild", teacher, larger, Writer::kTeacher, options.teacher_steps, options.mild_steps,
          kMildRate, kBeta2);
  model::save_model(teacher, target.path() / "teacher", larger);

  model::Model student = model::load_model(smaller);
  learn("student", student, smaller, Writer::kRight, 0, options.student_steps, kRightRate, kRightBeta2);
  learn("base", student, smaller, Writer::kBase, options.student_steps, options.base_steps, kBaseRate,
        kBeta2);
  model::save_model(student, target.path() / "base", smaller);

  write_problem_files(target.path(), task, options);
  write_lab_file(target.path(), task.name(), options);
  fs::remove_all(runs);
  target.commit();
}

}  // namespace routeopd::lab

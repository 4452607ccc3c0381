// SPDX-License-Identifier: Apache-2.0
#include "routeopd/ranks/group.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <utility>

#include "routeopd/base/error.h"
#include "routeopd/base/fields.h"
#include "routeopd/base/interrupt.h"

namespace routeopd::ranks {
namespace {

class Alone : public Group {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void sum(const std::vector<at::Tensor>&) override {}
  void share(const std::vector<at::Tensor>&) override {}
  std::vector<std::string> gather(const std::string& bytes) override { return {bytes}; }
  void barrier() override {}
};

std::unique_ptr<Group>& joined() {
  static std::unique_ptr<Group> group;
  return group;
}

}  // namespace

Group& alone() {
  static Alone one;
  return one;
}

Group& world() {
  return joined() ? *joined() : alone();
}

void join(std::unique_ptr<Group> group) {
  joined() = std::move(group);
}

std::vector<double> sum_of(Group& group, std::vector<double> values) {
  if (values.empty()) return values;
  group.sum({at::from_blob(values.data(), {std::ssize(values)}, at::kDouble)});
  return values;
}

std::map<std::string, double> sum_of(Group& group, const std::map<std::string, double>& values) {
  if (group.alone()) return values;
  std::set<std::string> names;
  Json own = Json::array();
  for (const auto& [name, value] : values) own.push_back(name);
  for (const std::string& said : group.gather(own.dump()))
    for (const Json& name : Json::parse(said)) names.insert(name.get<std::string>());
  std::vector<double> sums;
  for (const std::string& name : names) sums.push_back(values.contains(name) ? values.at(name) : 0);
  sums = sum_of(group, std::move(sums));
  std::map<std::string, double> all;
  for (std::size_t i = 0; const std::string& name : names) all[name] = sums[i++];
  return all;
}

double largest_of(Group& group, double value) {
  std::string own(sizeof(double), '\0');
  std::memcpy(own.data(), &value, sizeof(double));
  for (const std::string& said : group.gather(own)) {
    double other = 0;
    std::memcpy(&other, said.data(), sizeof(double));
    value = std::max(value, other);
  }
  return value;
}

void together(Group& group, const std::function<void()>& work) {
  if (group.alone()) return work();
  Json outcome = Json::object();
  std::exception_ptr own;
  try {
    work();
  } catch (const Interrupted& stop) {
    own = std::current_exception();
    outcome["signal"] = stop.signal();
  } catch (const std::exception& error) {
    own = std::current_exception();
    outcome["error"] = error.what();
  }
  const auto text = [](const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  const std::vector<std::string> outcomes = group.gather(text(outcome));
  if (own) std::rethrow_exception(own);
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    const Json said = Json::parse(outcomes[rank]);
    if (said.contains("signal")) throw Interrupted(said["signal"].get<int>());
    if (said.contains("error"))
      throw UserError("stops with rank {}, which said: {}", rank, said["error"].get<std::string>());
  }
}

void check_interrupt(Group& group) {
  if (group.alone()) return routeopd::check_interrupt();
  const auto signal = static_cast<int>(largest_of(group, pending_interrupt()));
  if (signal > 0) throw Interrupted(signal);
}

void check_equal(Group& group, const std::vector<at::Tensor>& tensors) {
  if (group.alone()) return;
  std::string sums;
  for (const at::Tensor& tensor : tensors)
    sums += fmt::format("{} ", tensor.detach().view(at::kInt).sum(at::kLong).item<std::int64_t>());
  const std::vector<std::string> all = group.gather(sums);
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all.front())
      throw UserError(
          "the weights of rank {} are no longer those of rank 0; the newest checkpoint is whole: resume from "
          "it, "
          "on processors of one kind",
          rank);
}

void check_agreement(Group& group, const std::map<std::string, std::string>& said) {
  const std::vector<std::string> all = group.gather(Json(said).dump());
  const auto said_by = [&](std::size_t rank) {
    return Json::parse(all[rank]).get<std::map<std::string, std::string>>();
  };
  const std::map<std::string, std::string> first = said_by(0);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const std::map<std::string, std::string> other = said_by(rank);
    std::map<std::string, std::string> names = first;
    names.insert(other.begin(), other.end());
    for (const auto& [name, either] : names) {
      const auto value_in = [&](const std::map<std::string, std::string>& values) {
        const auto found = values.find(name);
        return found == values.end() ? "none" : found->second;
      };
      const std::string ours = value_in(first), theirs = value_in(other);
      if (theirs != ours)
        throw UserError(
            "the ranks disagree on {}: rank 0 has {}, rank {} has {}; start all of them with the same", name,
            ours, rank, theirs);
    }
  }
}

}  // namespace routeopd::ranks

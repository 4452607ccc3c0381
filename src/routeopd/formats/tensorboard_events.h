// Scalars for TensorBoard: an events file that grows step by step and can be watched while it does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace routeopd::formats {

struct TaggedValue {
  // UTF-8 and not empty; TensorBoard groups "time/rollout" and "time/score" under "time".
  std::string_view tag;
  double value;  // kept in single precision; NaN and infinities are shown as such
};

// Seconds since 1970, and what this machine is called.
double wall_seconds();
std::string host_name();

class TensorboardEvents {
 public:
  // A new file in `directory`, which is made if it is not there, named as TensorBoard names them:
  // events.out.tfevents.SECONDS.HOST.PID.COUNT. TensorBoard reads all files of a directory, in the order of
  // their names, as one run: a run that is resumed opens its own. `now` is asked once here and once per call.
  // Throws UserError when the file cannot be made.
  explicit TensorboardEvents(const std::filesystem::path& directory,
                             std::function<double()> now = wall_seconds,
                             const std::string& host = host_name());
  ~TensorboardEvents();
  TensorboardEvents(const TensorboardEvents&) = delete;
  TensorboardEvents& operator=(const TensorboardEvents&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // What was measured at a step, as one record that is in the file when the call returns. Throws UserError
  // when the disk does not take all of it, and removes the part it took.
  void scalars(std::int64_t step, std::span<const TaggedValue> values);
  void scalar(std::string_view tag, std::int64_t step, double value);

  // Before the first value of a resumed run: TensorBoard drops what earlier files say of `first_step` and
  // later steps. After a checkpoint of step N that is N + 1.
  void restart(std::int64_t first_step);

 private:
  void append(std::string_view records);

  std::filesystem::path path_;
  std::function<double()> now_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;  // of the file, in bytes
};

}  // namespace routeopd::formats

// One thread that does what is handed to it, in order: answers are built here and not on the engine's thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace routeopd::serve {

class Worker {
 public:
  Worker();
  ~Worker();  // does what is left first
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // What `work` throws is dropped. Any thread may call it.
  void post(std::function<void()> work);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace routeopd::serve

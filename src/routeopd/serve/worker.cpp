// SPDX-License-Identifier: Apache-2.0
#include "routeopd/serve/worker.h"

#include <utility>

namespace routeopd::serve {

Worker::Worker() : thread_([this] { run(); }) {}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Worker::post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(work));
  }
  changed_.notify_one();
}

void Worker::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    try {
      work();
    } catch (...) {  // for want of memory: the reply that it held is answered with 500 when it ends
    }
    work = nullptr;  // what it holds ends before the lock
    lock.lock();
  }
}

}  // namespace routeopd::serve

// SPDX-License-Identifier: Apache-2.0
#include "http/stream.h"

namespace vetta::http {

bool ByteQueue::push(std::string_view bytes) {
  {
    const std::scoped_lock lock(mutex_);
    if (!is_open_) return false;
    if (bytes_.size() + bytes.size() > bytes_max_) {
      is_open_ = false;
      was_cut_ = true;
    } else {
      bytes_ += bytes;
    }
  }
  wake();
  return is_open();
}

void ByteQueue::close() {
  {
    const std::scoped_lock lock(mutex_);
    is_open_ = false;
  }
  wake();
}

bool ByteQueue::is_open() const {
  const std::scoped_lock lock(mutex_);
  return is_open_;
}

bool ByteQueue::was_cut() const {
  const std::scoped_lock lock(mutex_);
  return was_cut_;
}

std::string ByteQueue::take() {
  const std::scoped_lock lock(mutex_);
  std::string out;
  out.swap(bytes_);
  return out;
}

void ByteQueue::on_ready(std::function<void()> wake) {
  const std::scoped_lock lock(mutex_);
  wake_ = std::move(wake);
}

void ByteQueue::wake() {
  std::function<void()> call;
  {
    const std::scoped_lock lock(mutex_);
    call = wake_;
  }
  if (call) call();
}

void RawStream::resume() {
  if (!is_held_.exchange(false)) return;
  std::function<void()> call;
  {
    const std::scoped_lock lock(mutex_);
    call = resumed_;
  }
  if (call) call();
}

void RawStream::on_resume(std::function<void()> resumed) {
  const std::scoped_lock lock(mutex_);
  resumed_ = std::move(resumed);
}

EventStream::~EventStream() {
  if (ended_) ended_();
}

void EventStream::on_end(std::function<void()> ended) {
  ended_ = std::move(ended);
}

}  // namespace vetta::http

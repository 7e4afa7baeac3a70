// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <fcntl.h>
#include <sys/stat.h>

#include "series/window_detail.h"
#include "sys/files.h"

namespace vetta::series {
namespace {

constexpr std::string_view sealed_magic = "VETTASE1";
constexpr std::size_t points_per_block = 100'000;
constexpr std::size_t gaps_per_block = 2000;
constexpr std::size_t reason_bytes_max = 512;
/// A block of the index is full with so many: far from what a block can hold. It is its number of
/// entries, the entries, and `more_before` if the block before it is one of the index, too.
constexpr std::size_t index_bytes = 1U << 20U;
constexpr std::uint8_t more_before = 1;

enum class Entry : std::uint8_t { define = 1, data = 2 };

void put_data(PutBytes& put, std::span<const Point> points, std::span<const Gap> gaps) {
  put.unsigned_number(points.size());
  std::int64_t time = 0;
  for (const auto& point : points) {
    put.signed_number(epoch_nanoseconds(point.time) - time);
    time = epoch_nanoseconds(point.time);
    put.fixed64(std::bit_cast<std::uint64_t>(point.value));
  }
  put.unsigned_number(gaps.size());
  for (const auto& gap : gaps) {
    put.signed_number(epoch_nanoseconds(gap.time));
    put.text(std::string_view(gap.reason).substr(0, reason_bytes_max));
  }
}

WindowData take_data(TakeBytes& take) {
  WindowData data;
  const auto points = take.unsigned_number();
  std::int64_t time = 0;
  for (std::uint64_t i = 0; i < points && take.ok(); ++i) {
    time += take.signed_number();
    const double value = std::bit_cast<double>(take.fixed64());
    if (take.ok()) data.points.push_back({from_epoch_nanoseconds(time), value});
  }
  const auto gaps = take.unsigned_number();
  for (std::uint64_t i = 0; i < gaps && take.ok(); ++i) {
    const Time at = from_epoch_nanoseconds(take.signed_number());
    std::string reason(take.text());
    if (take.ok()) data.gaps.push_back({at, std::move(reason)});
  }
  return data;
}

void put_key(PutBytes& put, const SeriesKey& key) {
  put.text(key.site);
  put.text(key.entity);
  put.text(key.metric);
}

SeriesKey take_key(TakeBytes& take) {
  SeriesKey key;
  key.site = take.text();
  key.entity = take.text();
  key.metric = take.text();
  return key;
}

}  // namespace

void settle(WindowData& data) {
  std::ranges::stable_sort(data.points, {}, &Point::time);
  // Of equal times keep the last: go from the end.
  const auto rest = std::unique(data.points.rbegin(), data.points.rend(),
                                [](const Point& a, const Point& b) { return a.time == b.time; });
  data.points.erase(data.points.begin(), rest.base());
  std::ranges::stable_sort(data.gaps, {}, &Gap::time);
  const auto same = std::ranges::unique(data.gaps);
  data.gaps.erase(same.begin(), same.end());
}

Result<std::unique_ptr<OpenWindow>> OpenWindow::open(const std::string& path) {
  auto window = std::make_unique<OpenWindow>();
  const auto learn = [&](std::string_view record) -> Result<void> {
    TakeBytes take(record);
    if (static_cast<Entry>(take.byte()) == Entry::define) {
      const auto id = take.unsigned_number();
      window->ids_[take_key(take)] = id;
    }
    return {};
  };
  window->journal_.emplace(VETTA_TRY(sys::Journal::open(path, learn)));
  return window;
}

Result<void> OpenWindow::append(std::span<const SeriesAppend> what) {
  // A series is defined before the record that uses it, each in a record of its own: a torn tail
  // never leaves a number without a name.
  std::string data(1, static_cast<char>(Entry::data));
  PutBytes put(data);
  for (const auto& part : what) {
    auto at = ids_.find(part.key);
    if (at == ids_.end()) {
      std::string definition(1, static_cast<char>(Entry::define));
      PutBytes define(definition);
      define.unsigned_number(ids_.size());
      put_key(define, part.key);
      VETTA_TRY(journal_->append(definition));
      at = ids_.emplace(part.key, ids_.size()).first;
    }
    put.unsigned_number(at->second);
    put_data(put, part.points, part.gaps);
  }
  return journal_->append(data);
}

Result<void> read_journal(const std::string& path, const SeriesKey* only, const Visit& visit) {
  std::unordered_map<std::uint64_t, SeriesKey> names;
  const auto read = [&](std::string_view record) -> Result<void> {
    TakeBytes take(record);
    if (static_cast<Entry>(take.byte()) == Entry::define) {
      const auto id = take.unsigned_number();
      names[id] = take_key(take);
      return {};
    }
    while (!take.is_at_end() && take.ok()) {
      const auto at = names.find(take.unsigned_number());
      const WindowData data = take_data(take);
      if (at != names.end() && (only == nullptr || at->second == *only)) visit(at->second, data);
    }
    return {};
  };
  auto replayed = sys::replay_journal(path, read);
  if (!replayed && replayed.error().code != Code::not_found)
    return std::unexpected(std::move(replayed).error());
  return {};
}

namespace {

/// The blocks that one block of the index names; whether another index block lies before it.
Result<bool> read_listed(int fd, const std::string& path, std::string_view index,
                         const SeriesKey* only, const Visit& visit) {
  TakeBytes take(index);
  const auto count = take.unsigned_number();
  for (std::uint64_t i = 0; i < count && take.ok(); ++i) {
    const SeriesKey key = take_key(take);
    const auto offset = take.unsigned_number();
    const auto size = take.unsigned_number();
    if (!take.ok() || (only != nullptr && key != *only)) continue;
    ForwardWalker walker(fd, offset, offset + size);
    const auto block = VETTA_TRY(walker.next());
    if (!block) return fail(Code::internal, path + " is damaged");
    TakeBytes data(block->payload);
    visit(key, take_data(data));
  }
  return take.byte() == more_before;
}

/// A sealed file in the making: the blocks of points and gaps, then the index.
class SealedContent {
 public:
  void add(const SeriesKey& key, std::span<const Point> points, std::span<const Gap> gaps) {
    std::string payload;
    PutBytes data(payload);
    put_data(data, points, gaps);
    if (lists_.empty() || lists_.back().entries.size() >= index_bytes) lists_.emplace_back();
    List& list = lists_.back();
    PutBytes put(list.entries);
    put_key(put, key);
    put.unsigned_number(content_.size());
    put.unsigned_number(payload.size() + block_frame_bytes);
    append_block(content_, payload);
    ++list.count;
  }

  [[nodiscard]] std::string finish() && {
    if (lists_.empty()) lists_.emplace_back();
    for (const List& list : lists_) {
      std::string index;
      PutBytes put(index);
      put.unsigned_number(list.count);
      index += list.entries;
      if (&list != &lists_.front()) put.byte(more_before);
      append_block(content_, index);
    }
    return std::move(content_);
  }

 private:
  struct List {
    std::uint64_t count = 0;
    std::string entries;
  };

  std::string content_{sealed_magic};
  std::vector<List> lists_;
};

}  // namespace

Result<void> read_sealed(const std::string& path, const SeriesKey* only, const Visit& visit) {
  auto fd = sys::open_file(path, O_RDONLY);
  if (!fd && fd.error().code == Code::not_found) return {};
  if (!fd) return std::unexpected(std::move(fd).error());
  struct stat status{};
  if (fstat(fd->get(), &status) != 0) return fail_errno("look at " + path, errno);
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  if (bytes <= sealed_magic.size()) return fail(Code::internal, path + " is not whole");
  BackwardWalker last(fd->get(), sealed_magic.size(), bytes);
  bool has_more = true;
  while (has_more) {
    const auto index = VETTA_TRY(last.next());
    if (!index) return fail(Code::internal, path + " has no index");
    has_more = VETTA_TRY(read_listed(fd->get(), path, index->payload, only, visit));
  }
  return {};
}

Result<void> write_sealed(const std::string& path, std::map<SeriesKey, WindowData>& series) {
  SealedContent content;
  for (auto& [key, data] : series) {
    settle(data);
    std::span<const Point> points(data.points);
    std::span<const Gap> gaps(data.gaps);
    do {
      const auto some_points = points.first(std::min(points.size(), points_per_block));
      const auto some_gaps = gaps.first(std::min(gaps.size(), gaps_per_block));
      content.add(key, some_points, some_gaps);
      points = points.subspan(some_points.size());
      gaps = gaps.subspan(some_gaps.size());
    } while (!points.empty() || !gaps.empty());
  }
  return sys::write_atomically(path, std::move(content).finish(), 0640);
}

}  // namespace vetta::series

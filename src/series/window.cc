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
constexpr std::size_t reason_bytes_max = 512;

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

Result<void> read_sealed(const std::string& path, const SeriesKey* only, const Visit& visit) {
  auto fd = sys::open_file(path, O_RDONLY);
  if (!fd && fd.error().code == Code::not_found) return {};
  if (!fd) return std::unexpected(std::move(fd).error());
  struct stat status{};
  if (fstat(fd->get(), &status) != 0) return fail_errno("look at " + path, errno);
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  if (bytes <= sealed_magic.size()) return fail(Code::internal, path + " is not whole");
  BackwardWalker last(fd->get(), sealed_magic.size(), bytes);
  const auto index = VETTA_TRY(last.next());
  if (!index) return fail(Code::internal, path + " has no index");
  const std::string payload(index->payload);
  TakeBytes take(payload);
  const auto count = take.unsigned_number();
  for (std::uint64_t i = 0; i < count && take.ok(); ++i) {
    const SeriesKey key = take_key(take);
    const auto offset = take.unsigned_number();
    const auto size = take.unsigned_number();
    if (!take.ok() || (only != nullptr && key != *only)) continue;
    ForwardWalker walker(fd->get(), offset, offset + size);
    const auto block = VETTA_TRY(walker.next());
    if (!block) return fail(Code::internal, path + " is damaged");
    TakeBytes data(block->payload);
    visit(key, take_data(data));
  }
  return {};
}

Result<void> write_sealed(const std::string& path, std::map<SeriesKey, WindowData>& series) {
  std::string content(sealed_magic);
  std::string list;
  PutBytes put(list);
  std::uint64_t count = 0;
  const auto add = [&](const SeriesKey& key, std::span<const Point> points,
                       std::span<const Gap> gaps) {
    std::string payload;
    PutBytes data(payload);
    put_data(data, points, gaps);
    put_key(put, key);
    put.unsigned_number(content.size());
    put.unsigned_number(payload.size() + block_frame_bytes);
    append_block(content, payload);
    ++count;
  };
  for (auto& [key, data] : series) {
    settle(data);
    std::span<const Point> rest(data.points);
    add(key, rest.first(std::min(rest.size(), points_per_block)), data.gaps);
    while (rest.size() > points_per_block) {
      rest = rest.subspan(points_per_block);
      add(key, rest.first(std::min(rest.size(), points_per_block)), {});
    }
  }
  std::string index;
  PutBytes head(index);
  head.unsigned_number(count);
  index += list;
  append_block(content, index);
  return sys::write_atomically(path, content, 0640);
}

}  // namespace vetta::series

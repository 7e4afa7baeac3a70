// SPDX-License-Identifier: Apache-2.0
#include "series/store.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <sys/stat.h>

#include "core/text.h"
#include "series/window_detail.h"
#include "sys/files.h"

namespace vetta::series {
namespace {

constexpr std::size_t buckets_max = 100'000;
constexpr std::size_t open_windows_max = 8;

}  // namespace

struct Store::State {
  explicit State(StoreOptions o) : options(std::move(o)) {}

  StoreOptions options;
  mutable std::shared_mutex mutex;
  std::set<std::int64_t> windows;  ///< starts (ns) of those that have a file
  std::map<std::int64_t, std::unique_ptr<OpenWindow>> open;
  std::map<SeriesKey, Point> last;

  [[nodiscard]] std::int64_t window_of(Time time) const {
    const std::int64_t width = options.window.count();
    const std::int64_t ns = epoch_nanoseconds(time);
    return ns - (((ns % width) + width) % width);
  }

  [[nodiscard]] std::string path(std::int64_t start, std::string_view kind) const {
    return fmt::format("{}/{}.{}", options.dir.native(), start, kind);
  }

  void note(const SeriesKey& key, const WindowData& data) {
    for (const auto& point : data.points) {
      auto [at, is_new] = last.try_emplace(key, point);
      if (!is_new && at->second.time <= point.time) at->second = point;
    }
    if (data.points.empty() && !data.gaps.empty()) last.try_emplace(key, Point{Time::min(), 0});
  }

  [[nodiscard]] Result<OpenWindow*> window(std::int64_t start) {
    if (const auto at = open.find(start); at != open.end()) return at->second.get();
    if (open.size() >= open_windows_max) {
      VETTA_TRY(open.begin()->second->sync());
      open.erase(open.begin());
    }
    auto fresh = VETTA_TRY(OpenWindow::open(path(start, "journal")));
    windows.insert(start);
    return (open[start] = std::move(fresh)).get();
  }

  [[nodiscard]] Result<void> read(std::int64_t start, const SeriesKey* only,
                                  const Visit& visit) const {
    VETTA_TRY(read_sealed(path(start, "sealed"), only, visit));
    return read_journal(path(start, "journal"), only, visit);
  }

  [[nodiscard]] Result<WindowData> read_one(std::int64_t start, const SeriesKey& key) const {
    WindowData out;
    const auto collect = [&](const SeriesKey&, const WindowData& data) {
      out.points.insert(out.points.end(), data.points.begin(), data.points.end());
      out.gaps.insert(out.gaps.end(), data.gaps.begin(), data.gaps.end());
    };
    VETTA_TRY(read(start, &key, collect));
    settle(out);
    return out;
  }

  [[nodiscard]] std::vector<std::int64_t> windows_within(Time from, Time to) const {
    std::vector<std::int64_t> out;
    if (from >= to) return out;
    for (auto at = windows.lower_bound(window_of(from));
         at != windows.end() && *at < epoch_nanoseconds(to); ++at)
      out.push_back(*at);
    return out;
  }

  [[nodiscard]] Result<void> seal_one(std::int64_t start);
  [[nodiscard]] Result<void> remove(std::int64_t start);
  [[nodiscard]] Result<void> find_windows();
  [[nodiscard]] std::uint64_t bytes_of(std::int64_t start) const;
};

Result<void> Store::State::seal_one(std::int64_t start) {
  struct stat status{};
  if (stat(path(start, "journal").c_str(), &status) != 0) return {};
  std::map<SeriesKey, WindowData> series;
  const auto collect = [&](const SeriesKey& key, const WindowData& data) {
    auto& to = series[key];
    to.points.insert(to.points.end(), data.points.begin(), data.points.end());
    to.gaps.insert(to.gaps.end(), data.gaps.begin(), data.gaps.end());
  };
  VETTA_TRY(read(start, nullptr, collect));
  VETTA_TRY(write_sealed(path(start, "sealed"), series));
  // A crash here leaves both: the journal's points come again and change nothing.
  open.erase(start);
  return sys::remove_file(path(start, "journal"));
}

Result<void> Store::State::remove(std::int64_t start) {
  open.erase(start);
  VETTA_TRY(sys::remove_file(path(start, "journal")));
  VETTA_TRY(sys::remove_file(path(start, "sealed")));
  windows.erase(start);
  return {};
}

Result<void> Store::State::find_windows() {
  for (const auto& name : VETTA_TRY(sys::list_folder(options.dir.native()))) {
    const auto dot = name.find('.');
    if (dot == std::string::npos) continue;
    const std::string kind = name.substr(dot + 1);
    const auto start = parse_int(std::string_view(name).substr(0, dot));
    if (start && (kind == "journal" || kind == "sealed")) windows.insert(*start);
  }
  return {};
}

std::uint64_t Store::State::bytes_of(std::int64_t start) const {
  std::uint64_t sum = 0;
  for (const char* kind : {"journal", "sealed"}) {
    struct stat status{};
    if (stat(path(start, kind).c_str(), &status) == 0)
      sum += static_cast<std::uint64_t>(status.st_size);
  }
  return sum;
}

Store::Store(std::unique_ptr<State> state) : state_(std::move(state)) {}

Store::~Store() = default;

Result<std::unique_ptr<Store>> Store::open(StoreOptions options) {
  if (options.window <= Duration::zero())
    return fail(Code::invalid, "a window of series must last longer than nothing");
  auto state = std::make_unique<State>(std::move(options));
  VETTA_TRY(sys::make_folders(state->options.dir.native()));
  VETTA_TRY(state->find_windows());
  // The last values come from the two newest windows; older ones are stale anyway.
  const auto note = [&](const SeriesKey& key, const WindowData& data) { state->note(key, data); };
  std::size_t left = 2;
  for (auto at = state->windows.rbegin(); at != state->windows.rend() && left > 0; ++at, --left)
    VETTA_TRY(state->read(*at, nullptr, note));
  return std::unique_ptr<Store>(new Store(std::move(state)));
}

Result<void> Store::append(std::span<const SeriesAppend> what) {
  const std::unique_lock guard(state_->mutex);
  // Most appends lie within one window; points of others are put apart.
  std::map<std::int64_t, std::map<SeriesKey, WindowData>> by_window;
  for (const auto& part : what) {
    if (!state_->last.contains(part.key) && state_->last.size() >= state_->options.series_max) {
      return fail(Code::exhausted,
                  fmt::format("there are {} series already", state_->options.series_max),
                  "raise series_max if the machine is really that large");
    }
    for (const auto& point : part.points)
      by_window[state_->window_of(point.time)][part.key].points.push_back(point);
    for (const auto& gap : part.gaps)
      by_window[state_->window_of(gap.time)][part.key].gaps.push_back(gap);
  }
  for (const auto& [start, series] : by_window) {
    auto* window = VETTA_TRY(state_->window(start));
    std::vector<SeriesAppend> parts;
    for (const auto& [key, data] : series) parts.push_back({key, data.points, data.gaps});
    VETTA_TRY(window->append(parts));
    for (const auto& [key, data] : series) state_->note(key, data);
  }
  return {};
}

Result<void> Store::sync() {
  const std::unique_lock guard(state_->mutex);
  for (auto& [start, window] : state_->open) VETTA_TRY(window->sync());
  return {};
}

Result<void> Store::seal(Time before) {
  const std::unique_lock guard(state_->mutex);
  const auto limit = epoch_nanoseconds(before) - state_->options.window.count();
  const std::vector<std::int64_t> windows(state_->windows.begin(), state_->windows.end());
  for (const auto start : windows)
    if (start <= limit) VETTA_TRY(state_->seal_one(start));
  return {};
}

Result<void> Store::scan(const SeriesKey& key, Time from, Time to,
                         const std::function<bool(const Point&)>& take) const {
  const std::shared_lock guard(state_->mutex);
  for (const auto start : state_->windows_within(from, to)) {
    for (const auto& point : VETTA_TRY(state_->read_one(start, key)).points) {
      if (point.time < from || point.time >= to) continue;
      if (!take(point)) return {};
    }
  }
  return {};
}

Result<std::vector<Gap>> Store::gaps(const SeriesKey& key, Time from, Time to) const {
  const std::shared_lock guard(state_->mutex);
  std::vector<Gap> out;
  for (const auto start : state_->windows_within(from, to)) {
    for (auto& gap : VETTA_TRY(state_->read_one(start, key)).gaps)
      if (gap.time >= from && gap.time < to) out.push_back(std::move(gap));
  }
  return out;
}

std::vector<Latest> Store::latest(std::string_view metric, std::string_view site) const {
  const std::shared_lock guard(state_->mutex);
  std::vector<Latest> out;
  for (const auto& [key, point] : state_->last) {
    if (key.metric != metric || (!site.empty() && key.site != site)) continue;
    if (point.time != Time::min()) out.push_back({key, point});
  }
  return out;
}

Result<std::vector<Bucket>> Store::aggregate(const SeriesKey& key, Time from, Time to,
                                             Duration step) const {
  if (step <= Duration::zero() || to < from)
    return fail(Code::invalid, "a span needs a positive step and an end after its start");
  const auto width = static_cast<std::uint64_t>(step.count());
  const auto count = (static_cast<std::uint64_t>((to - from).count()) + width - 1) / width;
  if (count > buckets_max) {
    return fail(Code::exhausted, fmt::format("{} buckets are more than {}", count, buckets_max),
                "ask for a longer step or a shorter span");
  }
  std::vector<Bucket> out(count);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i].start = from + step * static_cast<std::int64_t>(i);
  const auto take = [&](const Point& point) {
    auto& bucket = out[static_cast<std::size_t>((point.time - from) / step)];
    bucket.min = bucket.count == 0 ? point.value : std::min(bucket.min, point.value);
    bucket.max = bucket.count == 0 ? point.value : std::max(bucket.max, point.value);
    bucket.avg += point.value;
    ++bucket.count;
    return true;
  };
  VETTA_TRY(scan(key, from, to, take));
  for (auto& bucket : out)
    if (bucket.count > 0) bucket.avg /= static_cast<double>(bucket.count);
  return out;
}

std::vector<SeriesKey> Store::series() const {
  const std::shared_lock guard(state_->mutex);
  std::vector<SeriesKey> out;
  for (const auto& [key, point] : state_->last) out.push_back(key);
  return out;
}

Result<void> Store::retain(Time before) {
  const std::unique_lock guard(state_->mutex);
  const auto limit = epoch_nanoseconds(before) - state_->options.window.count();
  while (!state_->windows.empty() && *state_->windows.begin() <= limit)
    VETTA_TRY(state_->remove(*state_->windows.begin()));
  std::uint64_t sum = 0;
  for (const auto start : state_->windows) sum += state_->bytes_of(start);
  while (sum > state_->options.bytes_max && state_->windows.size() > 1) {
    const auto start = *state_->windows.begin();
    sum -= std::min(sum, state_->bytes_of(start));
    VETTA_TRY(state_->remove(start));
  }
  return {};
}

std::uint64_t Store::bytes() const {
  const std::shared_lock guard(state_->mutex);
  std::uint64_t sum = 0;
  for (const auto start : state_->windows) sum += state_->bytes_of(start);
  return sum;
}

}  // namespace vetta::series

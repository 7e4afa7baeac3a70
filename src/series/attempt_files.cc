// SPDX-License-Identifier: Apache-2.0
// The folder of attempts' files: which are open for writing, and reading beside the writer.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <fmt/format.h>
#include <list>
#include <sys/stat.h>
#include <unistd.h>
#include <unordered_map>

#include "core/log.h"
#include "series/attempt_file_detail.h"
#include "sys/files.h"

namespace vetta::series {
namespace {

/// A cluster's name as a folder's: letters, digits, '_', '-' and inner dots stay, the rest is %XX.
std::string folder_name(std::string_view cluster) {
  std::string out;
  for (const char c : cluster.substr(0, 80)) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '_' || c == '-' ||
                          (c == '.' && !out.empty());
    if (is_plain) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out.empty() ? "%" : out;
}

/// Of one attempt; the last is replaced.
constexpr int set_aside_max = 10;

std::string set_aside_name(const std::string& path, int number) {
  return fmt::format("{}.damaged-{}", path, number);
}

/// Moves a file that is none of marks to a name beside it that is free.
Result<std::string> set_aside(const std::string& path) {
  int number = 1;
  while (number < set_aside_max && ::access(set_aside_name(path, number).c_str(), F_OK) == 0)
    ++number;
  std::string to = set_aside_name(path, number);
  if (std::rename(path.c_str(), to.c_str()) != 0)
    return fail_errno(fmt::format("set {} aside", path), errno);
  log::error("marks_set_aside", path + " is no file of marks of this version; a new one is begun",
             {{"set_aside", to}});
  return to;
}

/// A file open for reading, its whole blocks, and its index if it is sealed.
struct OpenForReading {
  sys::Fd fd;
  std::uint64_t bytes = 0;
  std::optional<Index> index;
};

bool overlaps(const Segment& s, const ScanFilter& f) {
  if (f.incarnation && (*f.incarnation < s.incarnation_from || *f.incarnation > s.incarnation_to))
    return false;
  if (f.from && s.time_to < epoch_nanoseconds(*f.from)) return false;
  return !f.to || s.time_from < epoch_nanoseconds(*f.to);
}

bool overlaps_steps(std::int64_t from, std::int64_t to, const ScanFilter& f) {
  return (!f.step_from || to >= *f.step_from) && (!f.step_to || from < *f.step_to);
}

bool matches(const BlockHead& head, const ScanFilter& f) {
  if (f.incarnation && head.rank.incarnation != *f.incarnation) return false;
  if (f.rank && head.rank.rank != *f.rank) return false;
  if (f.rank_id && head.rank.rank_id != *f.rank_id) return false;
  if (f.from && head.to < *f.from) return false;
  if (f.to && head.from >= *f.to) return false;
  return head.type != BlockType::marks || overlaps_steps(head.step_from, head.step_to, f);
}

bool is_within(Time time, const ScanFilter& f) {
  return (!f.from || time >= *f.from) && (!f.to || time < *f.to);
}

using TakeBlock = std::function<bool(const BlockHead&, TakeBytes&)>;

/// Calls `take` for each block of one type that may match; true if it ran to the end.
Result<bool> scan_range(const OpenForReading& file, std::uint64_t begin, std::uint64_t end,
                        BlockType type, const ScanFilter& filter, const TakeBlock& take) {
  ForwardWalker walker(file.fd.get(), begin, end);
  while (const auto block = VETTA_TRY(walker.next())) {
    if (block->type() != type) continue;
    TakeBytes bytes(block->payload);
    const auto head = decode_head(bytes);
    if (!head || !matches(*head, filter)) continue;
    if (!take(*head, bytes)) return false;
  }
  return true;
}

Result<void> scan_blocks(const OpenForReading& file, BlockType type, const ScanFilter& filter,
                         const TakeBlock& take) {
  if (!file.index) {
    VETTA_TRY(scan_range(file, attempt_file_magic.size(), file.bytes, type, filter, take));
    return {};
  }
  for (const auto& s : file.index->segments) {
    const bool has_type = type == BlockType::marks ? s.marks > 0 : s.samples > 0;
    if (!has_type || !overlaps(s, filter)) continue;
    if (type == BlockType::marks && !overlaps_steps(s.step_from, s.step_to, filter)) continue;
    if (!VETTA_TRY(scan_range(file, s.offset, s.offset + s.bytes, type, filter, take))) break;
  }
  return {};
}

/// Collects the last marks of each rank from blocks that come newest first.
class LastMarks {
 public:
  LastMarks(std::uint32_t incarnation, std::size_t last_n)
      : incarnation_(incarnation), last_n_(last_n) {}

  void take(const Block& block) {
    TakeBytes bytes(block.payload);
    const auto head = decode_head(bytes);
    ++since_new_;
    if (!head || head->type != BlockType::marks || head->rank.incarnation != incarnation_) return;
    auto [at, is_new] = ranks_.try_emplace(head->rank.rank_id);
    if (is_new) {
      at->second.rank = head->rank;
      since_new_ = 0;
      if (last_n_ > 0) ++hungry_;
    }
    auto& marks = at->second.marks;
    if (marks.size() >= last_n_) return;
    const auto fresh = decode_marks(*head, bytes);
    count_ -= marks.size();
    marks.insert(marks.end(), fresh.begin(), fresh.end());
    if (marks.size() >= last_n_) {
      --hungry_;
      keep_last(marks);
    }
    count_ += marks.size();
  }

  /// Marks held, all ranks together.
  [[nodiscard]] std::size_t count() const { return count_; }

  /// All ranks that were met are served, and no other was met for long.
  [[nodiscard]] bool is_done() const {
    return !ranks_.empty() && hungry_ == 0 && since_new_ > 1000 + 8 * ranks_.size();
  }

  [[nodiscard]] std::vector<RankMarks> finish() {
    std::vector<RankMarks> out;
    for (auto& [id, rank] : ranks_) {
      keep_last(rank.marks);
      out.push_back(std::move(rank));
    }
    std::ranges::sort(out, {},
                      [](const RankMarks& r) { return std::pair(r.rank.rank, r.rank.rank_id); });
    return out;
  }

 private:
  /// Sorts, and gives back what is too much.
  void keep_last(std::vector<model::Mark>& marks) const {
    std::ranges::sort(marks, {}, &model::Mark::sequence);
    if (marks.size() <= last_n_) return;
    marks.erase(marks.begin(), marks.end() - static_cast<std::ptrdiff_t>(last_n_));
    marks.shrink_to_fit();
  }

  std::uint32_t incarnation_;
  std::size_t last_n_;
  std::map<std::uint64_t, RankMarks> ranks_;
  std::size_t hungry_ = 0, since_new_ = 0, count_ = 0;
};

}  // namespace

struct AttemptFiles::State {
  explicit State(AttemptFileOptions o) : options(std::move(o)) {}

  struct Entry {
    std::mutex mutex;
    std::unique_ptr<AttemptFile> file;  ///< empty: open it when needed
  };

  struct Slot {
    std::string path;
    std::shared_ptr<Entry> entry;
  };

  AttemptFileOptions options;
  mutable std::mutex mutex;
  std::list<Slot> order;  ///< most recently used first
  std::unordered_map<std::string, std::list<Slot>::iterator> by_path;

  std::shared_ptr<Entry> entry(const std::string& path) {
    const std::lock_guard guard(mutex);
    if (const auto at = by_path.find(path); at != by_path.end()) {
      order.splice(order.begin(), order, at->second);
      return at->second->entry;
    }
    order.push_front({path, std::make_shared<Entry>()});
    by_path[path] = order.begin();
    evict();
    return order.front().entry;
  }

  /// Closes the least used that nobody works on.
  void evict() {
    for (auto at = order.end(); order.size() > options.open_max && at != order.begin();) {
      --at;
      if (at == order.begin() || at->entry.use_count() > 1) continue;
      by_path.erase(at->path);
      at = order.erase(at);
    }
  }

  /// Begins a new file where what lies there is none of marks; `aside` says where that is now.
  Result<std::unique_ptr<AttemptFile>> open_for_writing(const std::string& path,
                                                        const model::AttemptKey& key,
                                                        std::string& aside) const {
    auto file = AttemptFile::open(path, key, options);
    if (file || file.error().code != Code::conflict) return file;
    aside = VETTA_TRY(set_aside(path));
    return AttemptFile::open(path, key, options);
  }

  std::shared_ptr<Entry> known(const std::string& path) const {
    const std::lock_guard guard(mutex);
    const auto at = by_path.find(path);
    return at == by_path.end() ? nullptr : at->second->entry;
  }

  Result<std::optional<OpenForReading>> open_for_reading(const std::string& path) const;
};

/// The whole blocks of a file: what its writer says, else what the file shows. Nothing of a file
/// that is none of marks.
Result<std::optional<OpenForReading>> AttemptFiles::State::open_for_reading(
    const std::string& path) const {
  auto fd = sys::open_file(path, O_RDONLY);
  if (!fd && fd.error().code == Code::not_found) return std::nullopt;
  if (!fd) return std::unexpected(std::move(fd).error());
  struct stat status{};
  if (fstat(fd->get(), &status) != 0) return fail_errno("look at " + path, errno);
  OpenForReading out;
  out.fd = std::move(*fd);
  out.bytes = static_cast<std::uint64_t>(status.st_size);
  std::string magic(attempt_file_magic.size(), '\0');
  magic.resize(VETTA_TRY(sys::pread_all(out.fd.get(), magic.data(), magic.size(), 0)));
  if (magic != attempt_file_magic) return std::nullopt;
  BackwardWalker last(out.fd.get(), attempt_file_magic.size(), out.bytes);
  if (const auto block = last.next()) {
    if (*block && (*block)->type() == BlockType::index) out.index = decode_index((*block)->payload);
    return out;
  }
  // The end is torn, or just being written.
  ForwardWalker walker(out.fd.get(), attempt_file_magic.size(), out.bytes);
  while (VETTA_TRY(walker.next())) continue;
  out.bytes = walker.position();
  return out;
}

AttemptFiles::AttemptFiles(std::unique_ptr<State> state) : state_(std::move(state)) {}

AttemptFiles::~AttemptFiles() = default;

Result<std::unique_ptr<AttemptFiles>> AttemptFiles::open(AttemptFileOptions options) {
  VETTA_TRY(sys::make_folders(options.dir.native()));
  if (options.open_max == 0) options.open_max = 1;
  return std::unique_ptr<AttemptFiles>(
      new AttemptFiles(std::make_unique<State>(std::move(options))));
}

std::filesystem::path AttemptFiles::path(const model::AttemptKey& key) const {
  return state_->options.dir / folder_name(key.cluster) / fmt::format("{}", key.job_id / 1000) /
         fmt::format("{}-{}.marks", key.job_id, epoch_seconds(key.submit));
}

Result<Appended> AttemptFiles::append(const model::AttemptKey& key,
                                      std::span<const MarkAppend> marks,
                                      std::span<const SampleAppend> samples) {
  const std::string path = this->path(key).native();
  const auto entry = state_->entry(path);
  const std::lock_guard guard(entry->mutex);
  std::string aside;
  if (!entry->file) entry->file = VETTA_TRY(state_->open_for_writing(path, key, aside));
  auto done = entry->file->append(marks, samples);
  if (done) done->set_aside = std::move(aside);
  // After an error the file says best what is in it.
  if (!done) entry->file.reset();
  return done;
}

Result<void> AttemptFiles::seal(const model::AttemptKey& key) {
  const std::string path = this->path(key).native();
  if (::access(path.c_str(), F_OK) != 0) return {};
  const auto entry = state_->entry(path);
  const std::lock_guard guard(entry->mutex);
  if (!entry->file) entry->file = VETTA_TRY(AttemptFile::open(path, key, state_->options));
  auto sealed = entry->file->seal();
  entry->file.reset();
  return sealed;
}

Result<void> AttemptFiles::remove(const model::AttemptKey& key) {
  const std::string path = this->path(key).native();
  const auto entry = state_->entry(path);
  const std::lock_guard guard(entry->mutex);
  entry->file.reset();
  for (int number = 1; number <= set_aside_max; ++number)
    VETTA_TRY(sys::remove_file(set_aside_name(path, number)));
  return sys::remove_file(path);
}

Result<std::optional<AttemptFileInfo>> AttemptFiles::info(const model::AttemptKey& key) const {
  const std::string path = this->path(key).native();
  if (const auto entry = state_->known(path)) {
    const std::lock_guard guard(entry->mutex);
    if (entry->file) return entry->file->info();
  }
  const auto file = VETTA_TRY(state_->open_for_reading(path));
  if (!file) return std::nullopt;
  AttemptFileInfo info;
  info.bytes = file->bytes;
  if (file->index) {
    info.is_sealed = true;
    info.refused = file->index->refused;
    for (const auto& s : file->index->segments) {
      info.marks += s.marks;
      info.samples += s.samples;
    }
    return info;
  }
  ForwardWalker walker(file->fd.get(), attempt_file_magic.size(), file->bytes);
  while (const auto block = VETTA_TRY(walker.next())) {
    TakeBytes take(block->payload);
    if (block->type() == BlockType::refused) {
      take.byte();
      info.refused = std::max(info.refused, take.unsigned_number());
    } else if (const auto head = decode_head(take)) {
      (head->type == BlockType::marks ? info.marks : info.samples) += head->count;
    }
  }
  return info;
}

Result<void> AttemptFiles::scan_marks(
    const model::AttemptKey& key, const ScanFilter& filter,
    const std::function<bool(const RankRef&, const model::Mark&)>& take) const {
  const auto file = VETTA_TRY(state_->open_for_reading(path(key).native()));
  if (!file) return {};
  return scan_blocks(*file, BlockType::marks, filter, [&](const BlockHead& head, TakeBytes& bytes) {
    for (const auto& mark : decode_marks(head, bytes)) {
      if (!is_within(mark.start, filter)) continue;
      if (!overlaps_steps(mark.step, mark.step, filter)) continue;
      if (!take(head.rank, mark)) return false;
    }
    return true;
  });
}

Result<void> AttemptFiles::scan_samples(
    const model::AttemptKey& key, const ScanFilter& filter,
    const std::function<bool(const RankRef&, const model::RankSample&)>& take) const {
  const auto file = VETTA_TRY(state_->open_for_reading(path(key).native()));
  if (!file) return {};
  return scan_blocks(*file, BlockType::samples, filter,
                     [&](const BlockHead& head, TakeBytes& bytes) {
                       for (const auto& sample : decode_samples(head, bytes)) {
                         if (!is_within(sample.time, filter)) continue;
                         if (!take(head.rank, sample)) return false;
                       }
                       return true;
                     });
}

Result<std::vector<RankMarks>> AttemptFiles::last_marks(const model::AttemptKey& key,
                                                        std::uint32_t incarnation,
                                                        std::size_t last_n,
                                                        std::size_t marks_max) const {
  const auto file = VETTA_TRY(state_->open_for_reading(path(key).native()));
  if (!file) return std::vector<RankMarks>();
  BackwardWalker walker(file->fd.get(), attempt_file_magic.size(), file->bytes);
  LastMarks last(incarnation, last_n);
  while (const auto block = VETTA_TRY(walker.next())) {
    last.take(*block);
    if (last.count() > marks_max) {
      return fail(Code::exhausted, fmt::format("these are more than {} marks", marks_max),
                  "ask for fewer of the last steps");
    }
    if (last.is_done()) break;
  }
  return last.finish();
}

std::size_t AttemptFiles::open_files() const {
  const std::lock_guard guard(state_->mutex);
  return state_->order.size();
}

}  // namespace vetta::series

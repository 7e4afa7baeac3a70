// SPDX-License-Identifier: Apache-2.0
#include "collect/rings.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <sys/stat.h>

#include "core/log.h"
#include "sys/files.h"

namespace vetta::collect {
namespace {

constexpr std::string_view suffix = ".ring";

}  // namespace

Result<Rings> Rings::open(const std::string& folder) {
  VETTA_TRY(sys::make_folders(folder, 0711));
  Rings rings(folder);
  for (const std::uint64_t id : rings.files()) rings.cut_back(id);
  return rings;
}

void Rings::cut_back(std::uint64_t rank_id) {
  const auto reader = sys::RingReader::open(path(rank_id));
  if (!reader) {
    log::warn("ring_spoilt", reader.error().text());
    return remove(rank_id);
  }
  if (const auto trimmed = reader->trim(); !trimmed) spoilt_[rank_id] = trimmed.error().message;
}

std::string Rings::path(std::uint64_t rank_id) const {
  return fmt::format("{}/{:016x}{}", folder_, rank_id, suffix);
}

Result<int> Rings::make(const sys::RingHeader& header) {
  const std::uint64_t id = header.rank_id;
  if (const auto it = readers_.find(id); it != readers_.end()) {
    // Said hello before; a file that its owner spoilt since gets no second life.
    if (!it->second.spoilt.empty()) return fail(Code::invalid, it->second.spoilt);
    VETTA_TRY(it->second.reader.header());
    return it->second.reader.fd();
  }
  auto made = VETTA_TRY(sys::make_ring(path(id), header));
  auto reader = VETTA_TRY(sys::RingReader::take(std::move(made), path(id)));
  return readers_.emplace(id, Open{std::move(reader), 0, header.uid}).first->second.reader.fd();
}

Result<sys::RingHeader> Rings::adopt(std::uint64_t rank_id) {
  auto reader = VETTA_TRY(sys::RingReader::open(path(rank_id)));
  sys::RingHeader header = VETTA_TRY(reader.header());
  struct stat info{};

  if (header.rank_id != rank_id || ::fstat(reader.fd(), &info) != 0 || info.st_uid != header.uid)
    return fail(Code::invalid,
                fmt::format("{} does not say what its name and owner say", path(rank_id)));
  Open open{std::move(reader), header.read, header.uid};
  if (const auto why = spoilt_.extract(rank_id)) open.spoilt = why.mapped();
  readers_.insert_or_assign(rank_id, std::move(open));
  return header;
}

std::vector<std::uint64_t> Rings::files() const {
  std::vector<std::uint64_t> out;
  for (const std::string& name : sys::list_folder(folder_).value_or(std::vector<std::string>())) {
    if (name.size() != 16 + suffix.size() || !name.ends_with(suffix)) continue;
    std::uint64_t id = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + 16, id, 16);
    if (error == std::errc() && end == name.data() + 16) out.push_back(id);
  }
  return out;
}

Result<sys::RingContent> Rings::read(std::uint64_t rank_id, std::uint64_t after,
                                     std::size_t slots_max, bool is_final) const {
  const auto it = readers_.find(rank_id);
  if (it == readers_.end()) {
    sys::RingContent none;
    none.next = after;
    return none;
  }
  const Open& open = it->second;
  if (!open.spoilt.empty()) return fail(Code::invalid, open.spoilt);
  auto content = open.reader.read(after, slots_max, is_final);
  if (!content && content.error().code == Code::invalid) open.spoilt = content.error().message;
  return content;
}

std::vector<Rings::Spoilt> Rings::check() {
  std::vector<Spoilt> out;
  for (auto& [id, open] : readers_) {
    const auto trimmed = open.reader.trim();
    if (!trimmed && trimmed.error().code == Code::invalid && open.spoilt.empty())
      open.spoilt = trimmed.error().message;
    if (open.spoilt.empty() || open.is_told) continue;
    open.is_told = true;
    out.push_back({id, open.spoilt});
  }
  return out;
}

std::size_t Rings::count_of(std::uint32_t uid) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(readers_, [uid](const auto& each) { return each.second.uid == uid; }));
}

std::uint64_t Rings::acknowledged(std::uint64_t rank_id) const {
  const auto it = readers_.find(rank_id);
  return it == readers_.end() ? 0 : it->second.acknowledged;
}

void Rings::acknowledge(std::uint64_t rank_id, std::uint64_t sequence) {
  const auto it = readers_.find(rank_id);
  if (it == readers_.end() || sequence <= it->second.acknowledged) return;
  // A failed write costs a repetition after a restart, which vettad knows by its sequence.
  if (it->second.reader.store_read(sequence)) it->second.acknowledged = sequence;
}

void Rings::remove(std::uint64_t rank_id) {
  readers_.erase(rank_id);
  spoilt_.erase(rank_id);
  [[maybe_unused]] const auto removed = sys::remove_file(path(rank_id));
}

}  // namespace vetta::collect

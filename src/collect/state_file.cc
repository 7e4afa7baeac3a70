// SPDX-License-Identifier: Apache-2.0
#include "collect/state_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>

#include "model/wire.h"
#include "sys/files.h"

namespace vetta::collect {
namespace {

constexpr char kind_rank = 'R';
constexpr char kind_forget = 'F';

/// What model::Rank does not hold, in front of its frame.
struct Head {
  std::uint64_t start_ticks, task_rank_id;
  std::int32_t tasks, writer_pid;
  std::uint8_t is_launcher;
};

template <typename Number>
void append(std::string& out, Number value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename Number>
bool take(std::string_view& in, Number& value) {
  if (in.size() < sizeof value) return false;
  std::memcpy(&value, in.data(), sizeof value);
  in.remove_prefix(sizeof value);
  return true;
}

Result<sys::Journal> fresh_journal(const std::string& path,
                                   const std::vector<const RankState*>& states) {
  const std::string next = path + ".next";
  VETTA_TRY(sys::remove_file(next));
  auto journal =
      VETTA_TRY(sys::Journal::open(next, [](std::string_view) -> Result<void> { return {}; }));
  for (const RankState* state : states) VETTA_TRY(journal.append(encode_state(*state)));
  VETTA_TRY(journal.sync());
  if (std::rename(next.c_str(), path.c_str()) != 0)
    return fail_errno(fmt::format("rename {} to {}", next, path), errno);
  VETTA_TRY(sys::sync_folder(sys::folder_of(path)));
  return journal;
}

}  // namespace

std::string encode_state(const RankState& state) {
  std::string out(1, kind_rank);
  append(out, state.start_ticks);
  append(out, state.task_rank_id);
  append(out, state.tasks);
  append(out, state.writer_pid);
  append(out, static_cast<std::uint8_t>(state.is_launcher ? 1 : 0));
  model::Batch batch;
  batch.ranks.push_back(state.rank);
  out += model::encode(model::Frame(std::move(batch)));
  return out;
}

Result<RankState> decode_state(std::string_view record) {
  RankState state;
  Head head{};
  std::uint32_t size = 0;
  if (!record.starts_with(kind_rank)) return fail(Code::invalid, "no rank in a state record");
  record.remove_prefix(1);
  if (!take(record, head.start_ticks) || !take(record, head.task_rank_id) ||
      !take(record, head.tasks) || !take(record, head.writer_pid) ||
      !take(record, head.is_launcher) || !take(record, size))
    return fail(Code::invalid, "a state record is too short");
  const model::Frame frame = VETTA_TRY(model::decode(record));
  const auto* batch = std::get_if<model::Batch>(&frame);
  if (batch == nullptr || batch->ranks.size() != 1)
    return fail(Code::invalid, "no rank in a state record");
  state.rank = batch->ranks.front();
  state.start_ticks = head.start_ticks;
  state.task_rank_id = head.task_rank_id;
  state.tasks = head.tasks;
  state.writer_pid = head.writer_pid;
  state.is_launcher = head.is_launcher != 0;
  return state;
}

Result<StateFile> StateFile::open(const std::string& path) {
  std::map<std::uint64_t, RankState> states;
  const auto visit = [&states](std::string_view record) -> Result<void> {
    if (record.starts_with(kind_forget)) {
      record.remove_prefix(1);
      std::uint64_t id = 0;
      if (take(record, id)) states.erase(id);
      return {};
    }
    // A record of another release is passed over: its rank is found again in /proc.
    if (auto state = decode_state(record)) states[state->rank.rank_id] = std::move(*state);
    return {};
  };
  const auto replayed = sys::replay_journal(path, visit);
  if (!replayed && replayed.error().code != Code::not_found)
    return std::unexpected(replayed.error());
  std::vector<const RankState*> kept;
  for (const auto& [id, state] : states) kept.push_back(&state);
  StateFile file(path);
  static_cast<void>(file.start_afresh(kept));  // unwritten() says if that failed
  for (auto& [id, state] : states) file.restored_.push_back(std::move(state));
  return file;
}

Result<void> StateFile::save(const RankState& state) {
  return add(encode_state(state));
}

Result<void> StateFile::forget(std::uint64_t rank_id) {
  std::string record(1, kind_forget);
  append(record, rank_id);
  return add(record);
}

Result<void> StateFile::add(std::string_view record) {
  if (!journal_) return {};  // rewrite() is due
  auto done = journal_->append(record);
  if (!done) unwritten_ = done.error();
  return done;
}

Result<void> StateFile::start_afresh(const std::vector<const RankState*>& states) {
  auto fresh = fresh_journal(path_, states);
  if (!fresh) {
    unwritten_ = fresh.error();
    static_cast<void>(sys::remove_file(path_ + ".next"));  // it takes room
    return std::unexpected(std::move(fresh).error());
  }
  journal_ = std::move(*fresh);
  unwritten_.reset();
  return {};
}

Result<void> StateFile::rewrite(const std::map<std::uint64_t, RankState>& ranks) {
  std::vector<const RankState*> kept;
  for (const auto& [id, state] : ranks) kept.push_back(&state);
  return start_afresh(kept);
}

}  // namespace vetta::collect

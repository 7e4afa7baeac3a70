// SPDX-License-Identifier: Apache-2.0
// Marks and rank samples as differences to the one before: 15 to 35 bytes a mark.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "series/block_detail.h"

namespace vetta::series {
namespace {

using model::Mark;
using model::RankSample;

enum Flag : unsigned {
  same_samples = 1,   ///< as in the mark before
  whole_samples = 2,  ///< a varint
  float_samples = 4,  ///< 8 bytes
  short_loss = 8,     ///< 4 bytes are exact
  long_loss = 16,
  is_injected = 32,
  next_sequence = 64,
  next_step = 128,
};

/// Differences wrap, so that any two values have one.
std::int64_t difference(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}

std::int64_t sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

bool is_same_number(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

/// What the next mark is told against.
struct Before {
  std::uint64_t sequence = 0;
  std::int64_t step = 0, end = 0, duration = 0;
  std::array<std::int64_t, model::phase_count> phases{};
  double samples = 0;

  void follow(const Mark& mark) {
    sequence = mark.sequence;
    step = mark.step;
    duration = mark.duration.count();
    end = sum(epoch_nanoseconds(mark.start), duration);
    for (std::size_t p = 0; p < phases.size(); ++p)
      if (mark.phases[p] != model::missing_duration) phases[p] = mark.phases[p].count();
    if (!std::isnan(mark.samples)) samples = mark.samples;
  }
};

unsigned flags_of(const Mark& mark, const Before& before) {
  unsigned flags = 0;
  if (!std::isnan(mark.samples)) {
    constexpr double whole_max = 9e15;
    const bool is_whole = !std::signbit(mark.samples) && mark.samples < whole_max &&
                          is_same_number(mark.samples, std::floor(mark.samples));
    if (is_same_number(mark.samples, before.samples)) {
      flags |= same_samples;
    } else {
      flags |= is_whole ? whole_samples : float_samples;
    }
  }
  if (!std::isnan(mark.loss)) {
    const bool is_short =
        std::isinf(mark.loss) ||
        (std::abs(mark.loss) < 3e38 &&
         is_same_number(static_cast<double>(static_cast<float>(mark.loss)), mark.loss));
    flags |= is_short ? short_loss : long_loss;
  }
  if (mark.source == model::MarkSource::injected) flags |= is_injected;
  if (mark.sequence == before.sequence + 1) flags |= next_sequence;
  if (mark.step == sum(before.step, 1)) flags |= next_step;
  return flags;
}

void put_mark(PutBytes& put, const Mark& mark, const Before& before) {
  const unsigned flags = flags_of(mark, before);
  put.byte(static_cast<std::uint8_t>(flags));
  unsigned phases = 0;
  for (std::size_t p = 0; p < model::phase_count; ++p)
    if (mark.phases[p] != model::missing_duration) phases |= 1U << p;
  put.byte(static_cast<std::uint8_t>(phases));
  if ((flags & next_sequence) == 0) {
    put.signed_number(difference(static_cast<std::int64_t>(mark.sequence),
                                 static_cast<std::int64_t>(before.sequence)));
  }
  if ((flags & next_step) == 0) put.signed_number(difference(mark.step, before.step));
  put.signed_number(difference(epoch_nanoseconds(mark.start), before.end));
  put.signed_number(difference(mark.duration.count(), before.duration));
  for (std::size_t p = 0; p < model::phase_count; ++p)
    if ((phases & (1U << p)) != 0)
      put.signed_number(difference(mark.phases[p].count(), before.phases[p]));
  if ((flags & whole_samples) != 0) put.unsigned_number(static_cast<std::uint64_t>(mark.samples));
  if ((flags & float_samples) != 0) put.fixed64(std::bit_cast<std::uint64_t>(mark.samples));
  if ((flags & short_loss) != 0)
    put.fixed32(std::bit_cast<std::uint32_t>(static_cast<float>(mark.loss)));
  if ((flags & long_loss) != 0) put.fixed64(std::bit_cast<std::uint64_t>(mark.loss));
}

Mark take_mark(TakeBytes& take, const Before& before) {
  Mark mark;
  const unsigned flags = take.byte();
  const unsigned phases = take.byte();
  mark.sequence = before.sequence + 1;
  if ((flags & next_sequence) == 0) {
    mark.sequence = static_cast<std::uint64_t>(
        sum(static_cast<std::int64_t>(before.sequence), take.signed_number()));
  }
  mark.step = sum(before.step, (flags & next_step) == 0 ? take.signed_number() : 1);
  mark.start = from_epoch_nanoseconds(sum(before.end, take.signed_number()));
  mark.duration = Duration(sum(before.duration, take.signed_number()));
  for (std::size_t p = 0; p < model::phase_count; ++p)
    if ((phases & (1U << p)) != 0)
      mark.phases[p] = Duration(sum(before.phases[p], take.signed_number()));
  if ((flags & same_samples) != 0) mark.samples = before.samples;
  if ((flags & whole_samples) != 0) mark.samples = static_cast<double>(take.unsigned_number());
  if ((flags & float_samples) != 0) mark.samples = std::bit_cast<double>(take.fixed64());
  if ((flags & short_loss) != 0)
    mark.loss = static_cast<double>(std::bit_cast<float>(take.fixed32()));
  if ((flags & long_loss) != 0) mark.loss = std::bit_cast<double>(take.fixed64());
  mark.source = (flags & is_injected) != 0 ? model::MarkSource::injected : model::MarkSource::hand;
  return mark;
}

void put_head(PutBytes& put, BlockType type, const RankRef& rank, std::size_t count) {
  put.byte(static_cast<std::uint8_t>(type));
  put.fixed64(rank.rank_id);
  put.unsigned_number(rank.incarnation);
  put.signed_number(rank.rank);
  put.unsigned_number(count);
}

void put_range(PutBytes& put, std::int64_t from, std::int64_t to) {
  put.signed_number(from);
  put.unsigned_number(static_cast<std::uint64_t>(difference(to, from)));
}

/// Calls visit(member) for each counter of a sample in the stored order.
void visit_counters(auto& sample, auto&& visit) {
  visit(sample.rss_bytes);
  visit(sample.minor_faults);
  visit(sample.major_faults);
  visit(sample.read_bytes);
  visit(sample.write_bytes);
  visit(sample.voluntary_switches);
  visit(sample.involuntary_switches);
  visit(sample.threads);
  visit(sample.processes);
}

enum SampleFlag : unsigned { has_cpu = 1, has_gap = 2, first_counter = 4 };

constexpr std::size_t counter_count = 9;
using CountersBefore = std::array<std::int64_t, counter_count>;

void put_sample(PutBytes& put, const RankSample& sample, CountersBefore& before, Time last) {
  unsigned flags = (sample.cpu_seconds ? has_cpu : 0U) | (sample.gap.empty() ? 0U : has_gap);
  unsigned bit = first_counter;
  visit_counters(sample, [&](const auto& counter) {
    if (counter) flags |= bit;
    bit <<= 1U;
  });
  put.unsigned_number(flags);
  put.signed_number(difference(epoch_nanoseconds(sample.time), epoch_nanoseconds(last)));
  if (sample.cpu_seconds) put.fixed64(std::bit_cast<std::uint64_t>(*sample.cpu_seconds));
  std::size_t at = 0;
  visit_counters(sample, [&](const auto& counter) {
    if (counter) {
      const auto value = static_cast<std::int64_t>(*counter);
      put.signed_number(difference(value, before[at]));
      before[at] = value;
    }
    ++at;
  });
  if (!sample.gap.empty()) put.text(std::string_view(sample.gap).substr(0, 1024));
}

RankSample take_sample(TakeBytes& take, CountersBefore& before, Time last) {
  RankSample sample;
  const auto flags = static_cast<unsigned>(take.unsigned_number());
  sample.time = from_epoch_nanoseconds(sum(epoch_nanoseconds(last), take.signed_number()));
  if ((flags & has_cpu) != 0) sample.cpu_seconds = std::bit_cast<double>(take.fixed64());
  unsigned bit = first_counter;
  std::size_t at = 0;
  visit_counters(sample, [&](auto& counter) {
    if ((flags & bit) != 0) {
      before[at] = sum(before[at], take.signed_number());
      using Number = typename std::remove_reference_t<decltype(counter)>::value_type;
      counter = static_cast<Number>(before[at]);
    }
    bit <<= 1U;
    ++at;
  });
  if ((flags & has_gap) != 0) sample.gap = take.text();
  return sample;
}

}  // namespace

std::string encode_marks(const RankRef& rank, std::span<const Mark> marks) {
  std::string out;
  PutBytes put(out);
  put_head(put, BlockType::marks, rank, marks.size());
  const auto [first, last] = std::ranges::minmax_element(marks, {}, &Mark::start);
  put_range(put, epoch_nanoseconds(first->start), epoch_nanoseconds(last->start));
  const auto [low, high] = std::ranges::minmax_element(marks, {}, &Mark::step);
  put_range(put, low->step, high->step);
  Before before;
  for (const auto& mark : marks) {
    put_mark(put, mark, before);
    before.follow(mark);
  }
  return out;
}

std::string encode_samples(const RankRef& rank, const Origin& origin,
                           std::span<const RankSample> samples) {
  std::string out;
  PutBytes put(out);
  put_head(put, BlockType::samples, rank, samples.size());
  const auto [first, last] = std::ranges::minmax_element(samples, {}, &RankSample::time);
  put_range(put, epoch_nanoseconds(first->time), epoch_nanoseconds(last->time));
  put.fixed64(origin.agent_id);
  put.unsigned_number(origin.sequence);
  CountersBefore before{};
  Time time;
  for (const auto& sample : samples) {
    put_sample(put, sample, before, time);
    time = sample.time;
  }
  return out;
}

std::optional<BlockHead> decode_head(TakeBytes& take) {
  BlockHead head;
  head.type = static_cast<BlockType>(take.byte());
  if (head.type != BlockType::marks && head.type != BlockType::samples) return std::nullopt;
  head.rank.rank_id = take.fixed64();
  head.rank.incarnation = static_cast<std::uint32_t>(take.unsigned_number());
  head.rank.rank = static_cast<std::int32_t>(take.signed_number());
  head.count = take.unsigned_number();
  const auto from = take.signed_number();
  head.from = from_epoch_nanoseconds(from);
  head.to = from_epoch_nanoseconds(sum(from, static_cast<std::int64_t>(take.unsigned_number())));
  if (head.type == BlockType::marks) {
    head.step_from = take.signed_number();
    head.step_to = sum(head.step_from, static_cast<std::int64_t>(take.unsigned_number()));
  } else {
    head.origin.agent_id = take.fixed64();
    head.origin.sequence = take.unsigned_number();
  }
  if (!take.ok()) return std::nullopt;
  return head;
}

std::vector<Mark> decode_marks(const BlockHead& head, TakeBytes& take) {
  std::vector<Mark> out;
  Before before;
  for (std::uint64_t i = 0; i < head.count; ++i) {
    Mark mark = take_mark(take, before);
    if (!take.ok()) break;
    before.follow(mark);
    out.push_back(mark);
  }
  return out;
}

std::vector<RankSample> decode_samples(const BlockHead& head, TakeBytes& take) {
  std::vector<RankSample> out;
  CountersBefore before{};
  Time time;
  for (std::uint64_t i = 0; i < head.count; ++i) {
    RankSample sample = take_sample(take, before, time);
    if (!take.ok()) break;
    time = sample.time;
    out.push_back(std::move(sample));
  }
  return out;
}

}  // namespace vetta::series

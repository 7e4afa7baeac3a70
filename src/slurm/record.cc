// SPDX-License-Identifier: Apache-2.0
#include "slurm/record.h"

#include <algorithm>
#include <fmt/format.h>

#include "core/text.h"

namespace vetta::slurm {
namespace {

constexpr std::size_t refusals_max = 100;

std::size_t occurrences(std::string_view text, std::string_view separator) {
  std::size_t count = 0;
  for (std::size_t at = text.find(separator); at != std::string_view::npos;
       at = text.find(separator, at + separator.size()))
    ++count;
  return count;
}

struct Line {
  std::size_t begin = 0, end = 0;  ///< without its newline
  std::size_t separators = 0;
};

class RecordReader {
 public:
  RecordReader(std::string_view text, const RecordFormat& format, const RecordSink& sink)
      : text_(text),
        format_(format),
        sink_(sink),
        wanted_(format.trailing_separator ? format.fields : format.fields - 1) {
    fields_.reserve(format.fields);
  }

  std::vector<Refusal> read() {
    for (std::size_t begin = 0; begin < text_.size();) {
      const std::size_t end = std::min(text_.find('\n', begin), text_.size());
      lines_.push_back(
          {begin, end, occurrences(text_.substr(begin, end - begin), format_.separator)});
      begin = end + 1;
    }
    std::size_t records = 0;
    for (std::size_t at = 0; at < lines_.size();) {
      if (lines_[at].begin == lines_[at].end) {
        ++at;
        continue;
      }
      if (records++ == format_.records_max) {
        refuse(at, fmt::format("more than {} records", format_.records_max));
        break;
      }
      at = record(at);
    }
    if (unnamed_ > 0)
      refused_.push_back({0, fmt::format("and {} more records were refused", unnamed_)});
    return std::move(refused_);
  }

 private:
  /// Takes the record that begins with this line; returns the line where the next one begins.
  std::size_t record(std::size_t first) {
    std::size_t separators = lines_[first].separators;
    std::size_t last = first;
    while (separators < wanted_ && last + 1 < lines_.size() &&
           last + 1 - first < format_.lines_max) {
      const Line& next = lines_[last + 1];
      // A line that is complete by itself is a record of its own.
      if (next.separators >= wanted_ && wanted_ > 0) break;
      separators += next.separators;
      ++last;
    }
    if (separators < wanted_) {
      refuse(first, fmt::format("{} separators where {} are due{}", lines_[first].separators,
                                wanted_, last + 1 == lines_.size() ? ", the text ends" : ""));
      return first + 1;
    }
    if (separators > wanted_ && !format_.free_text)
      refuse(first, fmt::format("{} separators where {} are due", separators, wanted_));
    else
      hand_over(text_.substr(lines_[first].begin, lines_[last].end - lines_[first].begin),
                separators, first);
    return last + 1;
  }

  void hand_over(std::string_view record, std::size_t separators, std::size_t line) {
    const std::size_t surplus = separators - wanted_;
    fields_.clear();
    std::size_t begin = 0;
    for (std::size_t i = 0; i < format_.fields; ++i) {
      std::size_t skip = surplus > 0 && format_.free_text == i ? surplus : 0;
      std::size_t end = record.find(format_.separator, begin);
      for (; skip > 0; --skip) end = record.find(format_.separator, end + format_.separator.size());
      const bool last = i + 1 == format_.fields && !format_.trailing_separator;
      if (last || end == std::string_view::npos) end = record.size();
      fields_.push_back(record.substr(begin, end - begin));
      begin = std::min(end + format_.separator.size(), record.size());
    }
    if (auto reason = sink_(static_cast<int>(line) + 1, fields_)) refuse(line, std::move(*reason));
  }

  void refuse(std::size_t line, std::string reason) {
    if (refused_.size() < refusals_max)
      refused_.push_back({static_cast<int>(line) + 1, std::move(reason)});
    else
      ++unnamed_;
  }

  std::string_view text_;
  const RecordFormat& format_;
  const RecordSink& sink_;
  std::size_t wanted_;
  std::vector<Line> lines_;
  std::vector<std::string_view> fields_;
  std::size_t unnamed_ = 0;  ///< refusals beyond refusals_max
  std::vector<Refusal> refused_;
};

}  // namespace

std::vector<Refusal> read_records(std::string_view text, const RecordFormat& format,
                                  const RecordSink& sink) {
  VETTA_ASSERT(format.fields > 0 && !format.separator.empty(), "a record has fields");
  return RecordReader(text, format, sink).read();
}

std::optional<std::size_t> Table::column(std::string_view name) const {
  const auto found = std::ranges::find(header, name);
  if (found == header.end()) return std::nullopt;
  return static_cast<std::size_t>(found - header.begin());
}

Result<Parsed<Table>> read_table(std::string_view text, std::string_view separator,
                                 std::string_view free_text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  if (end == 0) return fail(Code::invalid, "the text has no header line");
  Parsed<Table> table;
  RecordFormat format;
  format.separator = separator;
  for (const std::string_view name : split(text.substr(0, end), separator))
    table.value.header.emplace_back(trim(name));
  if (table.value.header.size() > 1 && table.value.header.back().empty()) {
    table.value.header.pop_back();
    format.trailing_separator = true;
  }
  format.fields = table.value.header.size();
  if (!free_text.empty()) format.free_text = table.value.column(free_text);
  table.refused = read_records(text.substr(std::min(end + 1, text.size())), format,
                               [&table](int, std::span<const std::string_view> fields) {
                                 table.value.rows.emplace_back(fields.begin(), fields.end());
                                 return std::optional<std::string>();
                               });
  for (Refusal& refusal : table.refused)
    if (refusal.line > 0) ++refusal.line;  // the header was line 1
  return table;
}

}  // namespace vetta::slurm

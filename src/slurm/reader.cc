// SPDX-License-Identifier: Apache-2.0
#include "slurm/reader.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <fmt/format.h>
#include <random>
#include <unistd.h>

#include "core/text.h"
#include "slurm/accounting.h"
#include "slurm/fields.h"
#include "slurm/jobs.h"
#include "slurm/keyvalue.h"
#include "slurm/nodes.h"
#include "slurm/partitions.h"

namespace vetta::slurm {
namespace {

using Args = std::vector<std::string>;

constexpr std::size_t output_max = std::size_t{512} << 20U;
/// Every state that an attempt can end in: without them sacct lists all that run, too.
constexpr std::string_view ended_states = "CD,F,CA,TO,NF,PR,OOM,BF,DL,RQ,RS,RV";

/// A separator that no name can foresee; its first byte cannot be typed on a command line easily.
std::string random_separator() {
  constexpr std::string_view letters =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::random_device device;
  std::uniform_int_distribution<std::size_t> pick(0, letters.size() - 1);
  std::string separator = "\x1f";
  for (int i = 0; i < 6; ++i) separator += letters[pick(device)];
  return separator;
}

/// This process's environment without what would change the programs' output, and with what they
/// are to use.
std::vector<std::string> environment_for(const ReaderConfig& config) {
  constexpr std::array<std::string_view, 8> dropped = {
      "SQUEUE_",         "SINFO_", "SACCT_",  "SCONTROL_",
      "SLURM_CLUSTERS=", "TZ=",    "LC_ALL=", "SLURM_TIME_FORMAT="};
  std::vector<std::string> env;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const bool drop =
        std::ranges::any_of(dropped, [&](std::string_view word) { return text.starts_with(word); });
    const bool replaced = text.starts_with("SLURM_BITSTR_LEN=") ||
                          (!config.conf.empty() && text.starts_with("SLURM_CONF="));
    if (!drop && !replaced) env.emplace_back(text);
  }
  env.emplace_back("TZ=UTC");
  env.emplace_back("LC_ALL=C");
  env.emplace_back("SLURM_TIME_FORMAT=%s");
  env.emplace_back("SLURM_BITSTR_LEN=0");  // array task lists without an ellipsis
  if (!config.conf.empty()) env.push_back("SLURM_CONF=" + config.conf);
  return env;
}

/// sacct -S and -E take no epoch seconds; TZ is UTC in the environment above.
std::string sacct_time(Time time) {
  std::string text = iso(time);
  text.pop_back();  // the Z
  return text;
}

/// The fields that squeue's stderr calls unknown: it goes on without them and exits with 0.
std::vector<std::string> unknown_fields(std::string_view error_text) {
  constexpr std::string_view words = "Invalid job format specification: ";
  std::vector<std::string> names;
  for (const std::string_view line : split(error_text, "\n"))
    if (const std::size_t at = line.find(words); at != std::string_view::npos)
      names.emplace_back(trim(line.substr(at + words.size())));
  return names;
}

template <typename T>
bool holds_nothing(const std::vector<T>& value) {
  return value.empty();
}

template <typename T>
bool holds_nothing(const T&) {
  return false;
}

template <typename T>
Answer<T> could_not(Answer<T> answer, Error error) {
  answer.knowledge = knowledge_of(error);
  answer.why = std::move(error);
  return answer;
}

}  // namespace

Result<Version> parse_version(std::string_view text) {
  // "slurm 22.05.8", "slurm-wlm 22.05.8", "slurm 23.11.0-0rc1"
  Version version;
  text = trim(text);
  const std::size_t blank = text.rfind(' ');
  const std::string_view number = blank == std::string_view::npos ? text : text.substr(blank + 1);
  version.text = number;
  const auto parts = split(number, ".");
  const std::array<int*, 3> targets = {&version.major, &version.minor, &version.patch};
  for (std::size_t i = 0; i < std::min(parts.size(), targets.size()); ++i) {
    const auto value = parse_uint(parts[i].substr(0, parts[i].find_first_not_of("0123456789")));
    if (!value || *value > 9999)
      return fail(Code::invalid, fmt::format("'{}' is not a version of Slurm", one_line(text, 60)));
    *targets.at(i) = static_cast<int>(*value);
  }
  if (parts.size() < 2)
    return fail(Code::invalid, fmt::format("'{}' is not a version of Slurm", one_line(text, 60)));
  return version;
}

Reader::Reader(ReaderConfig config, std::shared_ptr<sys::CommandRunner> runner)
    : config_(std::move(config)), runner_(std::move(runner)), job_fields_(job_fields()) {
  if (config_.separator.empty()) config_.separator = random_separator();
}

Result<sys::CommandOutput> Reader::run(const std::string& program, const Args& args) const {
  sys::Command command;
  command.argv = {config_.bin_dir.empty() ? program : config_.bin_dir + "/" + program};
  command.argv.insert(command.argv.end(), args.begin(), args.end());
  command.env = environment_for(config_);
  command.folder = "/";
  command.timeout = config_.timeout;
  command.out_max = output_max;
  auto output = runner_->run(command, stop_);
  if (!output) {
    Error error = std::move(output).error();
    if (error.code == Code::timeout && error.hint.empty())
      error.hint = "the controller is busy or unreachable: see sdiag and scontrol ping";
    if (error.code == Code::not_found) {
      // A missing program says nothing about the cluster: it must not read as "gone".
      error.code = Code::unavailable;
      error.hint =
          "install Slurm's client programs here, or give --slurm-bin-dir DIR "
          "(slurm_bin_dir in vettad.toml)";
    }
    return std::unexpected(std::move(error).while_(fmt::format("run {}", program)));
  }
  if (!output->status.is_success())
    return std::unexpected(explain_failure(program, output->status.text(), output->error));
  return output;
}

template <typename T, typename Parse>
Answer<T> Reader::ask(const std::string& program, const Args& args, const Parse& parse) const {
  Answer<T> answer;
  answer.asked = now();
  auto output = run(program, args);
  if (!output) return could_not(std::move(answer), std::move(output).error());
  answer.took = output->elapsed;
  Result<Parsed<T>> parsed = parse(output->out, output->error);
  if (!parsed)
    return could_not(std::move(answer),
                     std::move(parsed).error().while_(fmt::format("read {}'s output", program)));
  if (holds_nothing(parsed->value) && !parsed->refused.empty()) {
    // Nothing could be read of a text that is not empty: that is no knowledge of an empty cluster.
    Error error;
    error.code = Code::invalid;
    error.message =
        fmt::format("line {}: {}", parsed->refused.front().line, parsed->refused.front().reason);
    error.hint = fmt::format("run {} by hand and compare it with docs/operators", program);
    answer.refused = std::move(parsed->refused);
    return could_not(std::move(answer),
                     std::move(error).while_(fmt::format("read {}'s output", program)));
  }
  answer.knowledge = model::Knowledge::known;
  answer.value = std::move(parsed->value);
  answer.refused = std::move(parsed->refused);
  return answer;
}

Answer<Version> Reader::version() {
  return ask<Version>("scontrol", {"--version"},
                      [](std::string_view out, std::string_view) -> Result<Parsed<Version>> {
                        return Parsed<Version>{VETTA_TRY(parse_version(out)), {}};
                      });
}

Answer<std::string> Reader::cluster() {
  Answer<std::string> answer;
  if (config_.cluster.empty()) {
    answer = ask<std::string>(
        "scontrol", {"show", "config"},
        [](std::string_view out, std::string_view) -> Result<Parsed<std::string>> {
          for (const std::string_view line : split(out, "\n"))
            if (line.starts_with("ClusterName") && line.contains('='))
              return Parsed<std::string>{std::string(trim(line.substr(line.find('=') + 1))), {}};
          return fail(Code::invalid, "there is no ClusterName");
        });
    if (!answer.is_known()) return answer;
    config_.cluster = answer.value;
  }
  answer.knowledge = model::Knowledge::known;
  answer.value = config_.cluster;
  return answer;
}

std::optional<std::string> Reader::cluster_name() const {
  return config_.cluster.empty() ? std::nullopt : std::optional(config_.cluster);
}

Answer<std::vector<model::Partition>> Reader::partitions() {
  using Value = std::vector<model::Partition>;
  return ask<Value>("scontrol", {"-a", "show", "partition", "-o"},
                    [](std::string_view out, std::string_view) -> Result<Parsed<Value>> {
                      return parse_partitions(out);
                    });
}

Answer<std::vector<model::Node>> Reader::nodes() {
  using Value = std::vector<model::Node>;
  return ask<Value>("scontrol", {"-a", "-d", "show", "node", "-o"},
                    [](std::string_view out, std::string_view) -> Result<Parsed<Value>> {
                      return parse_nodes(out);
                    });
}

Answer<std::vector<model::Attempt>> Reader::jobs() {
  using Value = std::vector<model::Attempt>;
  const Args args = {"-h",  "-a", "-t",
                     "all", "-O", format_argument(job_fields_, config_.separator)};
  return ask<Value>("squeue", args,
                    [this](std::string_view out, std::string_view error) -> Result<Parsed<Value>> {
                      for (const std::string& name : unknown_fields(error))
                        std::erase(job_fields_, name);
                      JobText format;
                      format.fields = job_fields_;
                      format.separator = config_.separator;
                      return parse_jobs(out, format, config_.cluster);
                    });
}

Answer<std::vector<HeldJob>> Reader::allocations(const std::vector<model::Attempt>& jobs) {
  using Value = std::vector<HeldJob>;
  return ask<Value>("scontrol", {"-a", "-d", "show", "job", "-o"},
                    [&jobs](std::string_view out, std::string_view) -> Result<Parsed<Value>> {
                      if (out.starts_with("No jobs in the system")) return Parsed<Value>{};
                      return parse_allocations(out, &jobs);
                    });
}

Result<void> Reader::probe_accounting_fields() {
  if (!sacct_fields_.empty()) return {};
  const auto output = VETTA_TRY(run("sacct", {"-e"}));
  std::vector<std::string> names;
  for (const std::string_view line : split(output.out, "\n"))
    for (const std::string_view word : split(line, " "))
      if (!trim(word).empty()) names.emplace_back(trim(word));
  const Columns there(names);
  std::vector<std::string> fields;
  for (const std::string& wanted : accounting_fields())
    if (there.at(wanted)) fields.push_back(wanted);
  const Columns kept(fields);
  for (const char* needed : {"JobIDRaw", "State", "Submit", "End"})
    if (!kept.at(needed))
      return fail(Code::invalid, fmt::format("this release's sacct has no field {}", needed));
  sacct_fields_ = std::move(fields);
  return {};
}

Answer<std::vector<AccountedAttempt>> Reader::accounting(Time from, Time until) {
  using Value = std::vector<AccountedAttempt>;
  if (auto probed = probe_accounting_fields(); !probed)
    return could_not(Answer<Value>{}, std::move(probed).error());
  std::string names;
  for (const std::string& name : sacct_fields_) names += (names.empty() ? "" : ",") + name;
  const Args args = {"-a",
                     "-D",
                     "-n",
                     "-p",
                     "--delimiter=" + config_.separator,
                     "-S",
                     sacct_time(from),
                     "-E",
                     sacct_time(until),
                     "-s",
                     std::string(ended_states),
                     "--format=" + names};
  return ask<Value>("sacct", args,
                    [this](std::string_view out, std::string_view) -> Result<Parsed<Value>> {
                      AccountingText format;
                      format.fields = sacct_fields_;
                      format.separator = config_.separator;
                      return parse_accounting(out, format, config_.cluster);
                    });
}

Answer<Sdiag> Reader::sdiag() {
  return ask<Sdiag>("sdiag", {},
                    [](std::string_view out, std::string_view) -> Result<Parsed<Sdiag>> {
                      return Parsed<Sdiag>{VETTA_TRY(parse_sdiag(out)), {}};
                    });
}

}  // namespace vetta::slurm

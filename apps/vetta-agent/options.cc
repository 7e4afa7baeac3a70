// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <fmt/format.h>
#include <map>
#include <unistd.h>

#include "core/config.h"
#include "core/environment.h"
#include "core/units.h"

namespace vetta::agent {
namespace {

constexpr std::string_view help_text =
    R"(vetta-agent: carries this node's ranks, samples and step marks to vettad

Usage: vetta-agent [OPTIONS]

Examples:
  vetta-agent --vettad unix:/run/vettad/vettad.sock      beside vettad, on the same machine
  vetta-agent --vettad 127.0.0.1:7117 --token-file /etc/vetta/token
                                                         through an SSH tunnel to it
  vetta-agent --config /etc/vetta/agent.toml --check-config

Options:
  --vettad ADDRESS     HOST:PORT or unix:PATH of a vettad; give it once for each vettad
  --token-file FILE    proves who we are to vettad; read again at each connection
  --cluster NAME       Slurm's name of the cluster (default: $SLURM_CLUSTER_NAME, else "cluster")
  --node NAME          this node as Slurm calls it (default: $SLURMD_NODENAME, else the host name)
  --rundir DIR         sockets, rings and state, in DIR/NODE (default /run/vetta)
  --spool-max SIZE     memory for samples while vettad is away (default 8M)
  --rings-max SIZE     marks of ended ranks that nobody fetched (default 256M, under rundir)
  --shared-host BOOL   other nodes live on this kernel (default: seen by their agents' sockets)
  --sample-period SPAN 1s to 10m (default 10s); vettad can ask for every second for a while
  --config FILE        TOML; keys are the flags' names with _ for -, vettad is a list
  --check-config       read the settings and the token file, print what would be used and end
  --dump-config        print the settings as a file and end
  --verbose            log what happens, not only what matters
  --version, --help

The agent opens no TCP port. As root it sees all jobs of the node, as a user that user's own.
Exit codes: 0 ended by a signal, 1 could not start, 2 a flag or the file is wrong.
)";

using Flags = std::multimap<std::string, std::string>;

bool is_switch(std::string_view name) {
  return name == "check-config" || name == "dump-config" || name == "verbose" || name == "help" ||
         name == "version";
}

/// The flags that take a value, each with one for an example.
constexpr std::pair<std::string_view, std::string_view> value_flags[] = {
    {"vettad", "127.0.0.1:7117"}, {"token-file", "/etc/vetta/token"},
    {"cluster", "alps"},          {"node", "n001"},
    {"rundir", "/run/vetta"},     {"spool-max", "8M"},
    {"rings-max", "256M"},        {"shared-host", "true"},
    {"sample-period", "10s"},     {"config", "/etc/vetta/agent.toml"},
};

/// Empty: it is no flag that takes a value.
std::string_view example_of(std::string_view name) {
  for (const auto& [flag, value] : value_flags)
    if (flag == name) return value;
  return {};
}

Result<Flags> read_flags(const std::vector<std::string>& words) {
  Flags flags;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i] == "-h" ? "--help" : words[i];
    const std::size_t equals = word.find('=');
    const std::string name = word.starts_with("--") ? word.substr(2, equals - 2) : "";
    if (!is_switch(name) && example_of(name).empty())
      return fail(Code::invalid, fmt::format("'{}' is not known", word), "see vetta-agent --help");
    if (is_switch(name)) {
      flags.emplace(name, "true");
    } else if (equals != std::string::npos) {
      flags.emplace(name, word.substr(equals + 1));
    } else if (i + 1 < words.size()) {
      flags.emplace(name, words[++i]);
    } else {
      return fail(Code::invalid, fmt::format("--{} needs a value", name),
                  fmt::format("--{} {} (for example)", name, example_of(name)));
    }
  }
  return flags;
}

/// A flag's text, else the file's.
Result<std::optional<std::string>> text(const Flags& flags, Config& file, std::string flag) {
  const auto it = flags.find(flag);
  for (char& c : flag) c = c == '-' ? '_' : c;
  auto from_file = VETTA_TRY(file.text(flag));  // also marks the key as known
  if (it != flags.end()) return std::optional(it->second);
  return from_file;
}

Error in_flag(Error error, std::string_view flag) {
  return std::move(error).while_(fmt::format("read --{}", flag));
}

Result<void> take_numbers(const Flags& flags, Config& file, collect::Settings& settings) {
  const auto bytes = [&](const char* flag, const char* key, std::size_t& value) -> Result<void> {
    if (const auto said = VETTA_TRY(file.bytes(key))) value = *said;
    if (const auto it = flags.find(flag); it != flags.end()) {
      const auto parsed = parse_bytes(it->second);
      if (!parsed) return std::unexpected(in_flag(parsed.error(), flag));
      value = *parsed;
    }
    return {};
  };
  VETTA_TRY(bytes("spool-max", "spool_max", settings.spool_max));
  VETTA_TRY(bytes("rings-max", "rings_max", settings.rings_max));
  if (const auto period = VETTA_TRY(file.span("sample_period"))) settings.sample_period = *period;
  if (const auto it = flags.find("sample-period"); it != flags.end()) {
    const auto parsed = parse_span(it->second);
    if (!parsed) return std::unexpected(in_flag(parsed.error(), "sample-period"));
    settings.sample_period = *parsed;
  }
  if (settings.sample_period < std::chrono::seconds(1) ||
      settings.sample_period > std::chrono::minutes(10))
    return fail(Code::invalid, "the sample period must be between 1s and 10m");
  settings.shared_host = VETTA_TRY(file.boolean("shared_host"));
  if (const auto it = flags.find("shared-host"); it != flags.end()) {
    if (it->second != "true" && it->second != "false")
      return fail(Code::invalid, "--shared-host takes true or false");
    settings.shared_host = it->second == "true";
  }
  return {};
}

std::string host_name() {
  std::string name(256, '\0');
  if (::gethostname(name.data(), name.size() - 1) != 0) return "";
  return name.substr(0, name.find_first_of(std::string_view(".\0", 2)));
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 255 && text != "." && text != ".." &&
         text.find('/') == std::string_view::npos;
}

Result<void> take_names(const Flags& flags, Config& file, collect::Settings& settings) {
  settings.node =
      VETTA_TRY(text(flags, file, "node")).value_or(environment_variable("SLURMD_NODENAME"));
  if (settings.node.empty()) settings.node = host_name();
  if (!is_name(settings.node))
    return fail(Code::invalid, fmt::format("'{}' is no node's name", settings.node));
  settings.cluster =
      VETTA_TRY(text(flags, file, "cluster")).value_or(environment_variable("SLURM_CLUSTER_NAME"));
  if (settings.cluster.empty()) settings.cluster = "cluster";
  if (auto said = VETTA_TRY(text(flags, file, "rundir"))) settings.rundir = *said;
  if (!settings.rundir.starts_with('/'))
    return fail(Code::invalid,
                fmt::format("the run folder '{}' is not a whole path", settings.rundir));
  settings.token_file = VETTA_TRY(text(flags, file, "token-file")).value_or("");
  std::vector<std::string> vettads = VETTA_TRY(file.texts("vettad"));
  if (flags.contains("vettad")) {
    vettads.clear();
    const auto [begin, end] = flags.equal_range("vettad");
    for (auto it = begin; it != end; ++it) vettads.push_back(it->second);
  }
  if (vettads.empty())
    return fail(Code::invalid, "no vettad is named",
                "give --vettad HOST:PORT or --vettad unix:PATH");
  for (const std::string& each : vettads)
    settings.vettad.push_back(VETTA_TRY(collect::parse_address(each)));
  return {};
}

}  // namespace

std::string help() {
  return std::string(help_text);
}

std::string dump_config(const collect::Settings& settings) {
  std::string vettads;
  for (const auto& address : settings.vettad)
    vettads += (vettads.empty() ? "" : ", ") + toml_text(address.text());
  return fmt::format("vettad = [{}]\n", vettads) +
         fmt::format("{}token_file = {}\n", settings.token_file.empty() ? "# " : "",
                     toml_text(settings.token_file)) +
         fmt::format("cluster = {}\nnode = {}\nrundir = {}\n", toml_text(settings.cluster),
                     toml_text(settings.node), toml_text(settings.rundir)) +
         fmt::format("spool_max = {}\nrings_max = {}\nsample_period = {}\n", settings.spool_max,
                     settings.rings_max, toml_text(print_span(settings.sample_period))) +
         (settings.shared_host ? fmt::format("shared_host = {}\n", *settings.shared_host)
                               : "# shared_host = false\n");
}

Result<Options> parse_options(const std::vector<std::string>& words) {
  const Flags flags = VETTA_TRY(read_flags(words));
  Options options;
  options.wants_help = flags.contains("help");
  options.wants_version = flags.contains("version");
  options.check_config = flags.contains("check-config");
  options.dump_config = flags.contains("dump-config");
  options.is_verbose = flags.contains("verbose");
  options.settings.version = VETTA_VERSION;
  if (options.wants_help || options.wants_version) return options;
  Config file;
  if (const auto it = flags.find("config"); it != flags.end())
    file = VETTA_TRY(Config::read(it->second));
  VETTA_TRY(take_names(flags, file, options.settings));
  VETTA_TRY(take_numbers(flags, file, options.settings));
  VETTA_TRY(file.refuse_unknown());
  return options;
}

}  // namespace vetta::agent

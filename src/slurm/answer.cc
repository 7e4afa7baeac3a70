// SPDX-License-Identifier: Apache-2.0
#include "slurm/answer.h"

#include <array>
#include <fmt/format.h>

#include "core/text.h"

namespace vetta::slurm {
namespace {

struct Known {
  std::string_view words;  ///< in stderr
  Code code;
  std::string_view message, hint;
};

/// In the order of search: the particular before the general.
constexpr std::array known_failures = {
    Known{"Invalid job id specified", Code::not_found, "Slurm knows no such job", ""},
    Known{"Invalid node name specified", Code::not_found, "Slurm knows no such node", ""},
    Known{"Munge encode failed", Code::denied, "munge gave no credential",
          "start munged on this host, or point AuthInfo in slurm.conf to its socket"},
    Known{"authentication error", Code::denied, "Slurm refused the credential",
          "compare the munge key and the clock of this host with slurmctld's"},
    Known{"Invalid authentication credential", Code::denied, "Slurm refused the credential",
          "compare the munge key and the clock of this host with slurmctld's"},
    Known{"Invalid credential", Code::denied, "Slurm refused the credential",
          "compare the munge key and the clock of this host with slurmctld's"},
    Known{"Access/permission denied", Code::denied, "Slurm does not let this user ask",
          "see PrivateData in slurm.conf, or make the user an operator: sacctmgr modify user"},
    Known{"Access denied", Code::denied, "Slurm does not let this user ask",
          "see PrivateData in slurm.conf, or make the user an operator: sacctmgr modify user"},
    Known{"Unable to contact slurm controller", Code::unavailable, "slurmctld does not answer",
          "see scontrol ping, and whether slurmctld runs and this host reaches its port"},
    Known{"Problem talking to the database", Code::unavailable, "slurmdbd does not answer",
          "see sacctmgr ping or whether slurmdbd runs and this host reaches its port"},
    Known{"Unable to connect to database", Code::unavailable, "slurmdbd does not answer",
          "see whether slurmdbd runs and reaches its database"},
    Known{"accounting storage is disabled", Code::unavailable,
          "this cluster keeps no accounting (AccountingStorageType)",
          "set up slurmdbd; until then jobs that end between two readings are lost"},
    Known{"Could not establish a configuration source", Code::unavailable,
          "Slurm's programs found no configuration",
          "set SLURM_CONF, or give --slurm-conf FILE (slurm_conf in vettad.toml)"},
    Known{"Unable to process configuration file", Code::unavailable,
          "Slurm's programs could not read slurm.conf",
          "see that the file SLURM_CONF names exists and this user may read it"},
    Known{"Incompatible versions", Code::unavailable,
          "Slurm's programs on this host do not match slurmctld's release",
          "install the release of the controller here"},
    Known{"Zero Bytes were transmitted", Code::unavailable, "slurmctld broke off the connection",
          "compare the releases of Slurm and the munge keys of this host and the controller"},
    Known{"timed out", Code::timeout, "Slurm did not answer in time",
          "the controller is busy: see sdiag"},
};

std::string_view last_line(std::string_view text) {
  text = trim(text);
  const std::size_t newline = text.rfind('\n');
  return newline == std::string_view::npos ? text : text.substr(newline + 1);
}

}  // namespace

model::Knowledge knowledge_of(const Error& error) {
  return error.code == Code::not_found ? model::Knowledge::gone : model::Knowledge::could_not_ask;
}

Error explain_failure(std::string_view program, std::string_view status,
                      std::string_view error_text) {
  Error error;
  for (const Known& known : known_failures) {
    if (!error_text.contains(known.words)) continue;
    error.code = known.code;
    error.message = known.message;
    error.hint = known.hint;
    if (known.code == Code::not_found)
      error.message += fmt::format(": {}", one_line(last_line(error_text), 160));
    return std::move(error).while_(fmt::format("run {}", program));
  }
  error.code = Code::unavailable;
  const std::string_view line = last_line(error_text);
  if (line.ends_with(" not found") &&
      (line.starts_with("Node ") || line.starts_with("Partition "))) {
    error.code = Code::not_found;
    error.message = one_line(line, 200);
    return std::move(error).while_(fmt::format("run {}", program));
  }
  error.message = line.empty() ? fmt::format("it ended with {} and said nothing", status)
                               : fmt::format("it ended with {}: {}", status, one_line(line, 200));
  error.hint = fmt::format("run {} by hand as the same user", program);
  return std::move(error).while_(fmt::format("run {}", program));
}

}  // namespace vetta::slurm
